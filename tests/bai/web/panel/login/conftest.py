from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bai.web.panel.login.visitors import LoginLab


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[LoginLab]:
    made = LoginLab(tmp_path)
    yield made
    made.close()
