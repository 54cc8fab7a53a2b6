"""The node that all tests of a module share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lab.cache import LabUnavailable
from tests.lab.nspawn import Nodes
from tests.roles.role_site import RoleSite


@pytest.fixture(scope="module")
def site(
    request: pytest.FixtureRequest, nodes_lab: Nodes, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RoleSite]:
    """Of the kind that the module calls `Site`; its tests are on the node's network."""
    try:
        made = request.module.Site(nodes_lab, tmp_path_factory.mktemp("state"))
    except LabUnavailable as error:
        pytest.skip(f"node lab: {error}")
    with nodes_lab.inside():
        yield made
        made.close()
