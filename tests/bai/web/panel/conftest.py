from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.bai.web.lab import Lab
from tests.bai.web.panel.rendering import LABELLED_NODE, two_projects


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Two projects; tests leave it as it is."""
    made = Lab(tmp_path_factory.mktemp("lab"), node=LABELLED_NODE)
    two_projects(made)
    yield made
    made.close()
