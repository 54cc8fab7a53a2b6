from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.bai.web.apps.app_lab import AppLab, app_lab


@pytest.fixture(scope="module")
def shared_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppLab]:
    with app_lab(tmp_path_factory.mktemp("storage")) as made:
        yield made


@pytest.fixture
def apps(shared_lab: AppLab) -> AppLab:
    """Over HTTP; its gate has heard nothing yet and lets everybody pass."""
    gate = shared_lab.gate
    gate.asked.clear()
    gate.allowed, gate.answer, gate.protocol = {}, lambda path, headers: None, ""
    shared_lab.go_on.clear()
    return shared_lab
