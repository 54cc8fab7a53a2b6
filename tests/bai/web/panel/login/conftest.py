from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bai.web.auth import oidc
from tests.bai.web.lab import PATIENCE
from tests.bai.web.panel.login.visitors import LoginLab


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider is of this process: how long it takes to answer is nobody's subject."""
    monkeypatch.setattr(oidc, "FETCH_TIMEOUT", PATIENCE)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[LoginLab]:
    made = LoginLab(tmp_path)
    yield made
    made.close()
