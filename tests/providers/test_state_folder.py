"""Where a user's own state is."""

from __future__ import annotations

from pathlib import Path

import pytest

from providers.state_folder import state_folder


@pytest.mark.parametrize(
    ("chosen", "found"),
    [
        ("/srv/state", "/srv/state/bai"),
        ("", "/home/ada/.local/state/bai"),
        ("here", "/home/ada/.local/state/bai"),
    ],
)
def test_only_a_whole_path_counts(chosen: str, found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    monkeypatch.setenv("XDG_STATE_HOME", chosen)
    assert state_folder() == Path(found)


def test_what_is_not_set_is_in_the_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    assert state_folder() == Path("/home/ada/.local/state/bai")
