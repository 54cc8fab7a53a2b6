"""Where what is known of a remote is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from bai.controller.document_sources import RemoteOrigin, remote_folder


def test_a_new_token_in_the_address_does_not_lose_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    homes = {
        remote_folder(RemoteOrigin(f"https://{login}forge.example/x.git"))
        for login in ("", "bot:first@", "bot:second@")
    }
    assert len(homes) == 1
    assert not any("first" in str(home) for home in homes)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (RemoteOrigin("https://forge.example/x.git"), RemoteOrigin("https://forge.example/y.git")),
        (RemoteOrigin("https://forge.example/x.git"), RemoteOrigin("https://forge.example/x.git", path="a")),
        (RemoteOrigin("ssh://ada@forge.example/x.git"), RemoteOrigin("ssh://bob@forge.example/x.git")),
    ],
)
def test_other_repositories_are_kept_apart(one: RemoteOrigin, other: RemoteOrigin) -> None:
    assert remote_folder(one) != remote_folder(other)
