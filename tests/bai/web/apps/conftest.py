from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.bai.web.apps.lab import AppLab


@pytest.fixture(scope="module")
def shared_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppLab]:
    """For tests that change nothing of it."""
    made = AppLab(tmp_path_factory.mktemp("apps"))
    assert made.once(), made.lines
    made.once()
    yield made
    made.close()


@pytest.fixture
def app_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppLab]:
    made = AppLab(tmp_path_factory.mktemp("apps"))
    assert made.once(), made.lines
    made.once()
    yield made
    made.close()
