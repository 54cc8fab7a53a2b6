"""What all tests of notifications have in common."""

from __future__ import annotations

import pytest

from reconciler.notify import delivery
from tests.lab.spaces import PATIENCE


@pytest.fixture(autouse=True)
def servers_may_be_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine they are, and are no others than those that are tested with."""
    monkeypatch.setattr(delivery, "TIMEOUT", PATIENCE)
