from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.bai.web.lab import Lab
from tests.bai.web.panel.administration.world import managed
from tests.bai.web.panel.rendering import LABELLED_NODE


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Two projects with all that administration is about; tests leave it as it is."""
    made = Lab(tmp_path_factory.mktemp("lab"), node=LABELLED_NODE)
    managed(made)
    yield made
    made.close()
