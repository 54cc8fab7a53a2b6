"""What labs say to the harness holds for the test that runs."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.cache import kept

LIMIT = 500.0


@pytest.fixture(autouse=True)
def limit() -> Iterator[None]:
    """As pytest-timeout sets it."""
    before = signal.setitimer(signal.ITIMER_REAL, LIMIT)
    yield
    signal.setitimer(signal.ITIMER_REAL, *before)


def test_what_is_made_for_all_tests_is_in_no_tests_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(draft: Path) -> None:
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
        draft.write_text("made")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert kept("a-lab", make).read_text() == "made"
    assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= LIMIT


def test_one_that_cannot_be_made_ends_the_standstill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def make(draft: Path) -> None:
        raise OSError(f"no room for {draft.name}")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(OSError, match="no room"):
        kept("a-lab", make)
    assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
