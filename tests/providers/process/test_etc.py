"""What of the machine's /etc is shown in sandboxes, and when it is put together."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from providers.process.linux import procfs
from providers.process.sandbox import etc

MORE = ("closed", "deep/inner.conf", "deep", "dir", "secret", "link", "passwd", "big", "gone", "*.list")


@pytest.fixture
def top(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder in place of /etc, which everybody may pass."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        os.chmod(folder, 0o755)
        monkeypatch.setattr(etc, "TOP", folder)
        yield Path(folder)


def _file(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


def test_only_what_everybody_may_read_is_shown(top: Path) -> None:
    _file(top / "hosts", "here")
    _file(top / "passwd", "the machine's")
    _file(top / "secret", "x", 0o640)
    _file(top / "closed" / "x", "x")
    (top / "closed").chmod(0o750)
    (top / "link").symlink_to(top / "closed" / "x")
    _file(top / "deep" / "inner.conf", "x")
    _file(top / "a.list", "x")
    assert etc.shown_entries(MORE) == {name: f"{top}/{name}" for name in ("hosts", "deep", "a.list")}


def test_it_is_made_once_for_a_user_until_something_changes(top: Path, tmp_path: Path) -> None:
    _file(top / "hosts", "here")
    _file(top / "dir" / "x", "x")
    with (top / "big").open("wb") as stream:
        stream.truncate(etc.LARGEST + 1)
    before = os.umask(0o077)
    try:
        first = etc.prepare_etc(tmp_path, 4200, 4200, [7], MORE)
    finally:
        os.umask(before)
    assert [(each.name, each.stat().st_mode & 0o777) for each in sorted(first.folder.iterdir())] == [
        ("big", 0o644), ("dir", 0o755), ("group", 0o644), ("hosts", 0o644), ("passwd", 0o644),
    ]  # fmt: skip
    assert first.folder.stat().st_mode & 0o777 == 0o755
    assert (first.folder / "hosts").read_text() == "here" and "4200" in (first.folder / "passwd").read_text()
    assert first.words == [
        "--ro-bind-try", f"{top}/dir", f"{top}/dir", "--ro-bind-try", f"{top}/big", f"{top}/big",
    ]  # fmt: skip
    _file(top / "dir" / "y", "seen through the mount")
    assert etc.prepare_etc(tmp_path, 4200, 4200, [7], MORE) == first
    folders = {first.folder, etc.prepare_etc(tmp_path, 4201, 4201, [], MORE).folder}
    _file(top / "hosts", "there now")
    changed = etc.prepare_etc(tmp_path, 4200, 4200, [7], MORE)
    assert (changed.folder / "hosts").read_text() == "there now"
    assert {*(tmp_path / "etc").iterdir()} == {*folders, changed.folder}


def test_what_an_earlier_boot_made_goes(top: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may not have reached the disk."""
    with monkeypatch.context() as patch:
        patch.setattr(procfs, "boot_id", lambda: "earlier")
        earlier = etc.prepare_etc(tmp_path, 4200, 4200, [])
    now = etc.prepare_etc(tmp_path, 4200, 4200, [])
    assert now.folder != earlier.folder and [*(tmp_path / "etc").iterdir()] == [now.folder]


def test_it_can_be_made_by_several_at_once(top: Path, tmp_path: Path) -> None:
    users = dict.fromkeys(etc.USERS, "")
    etc._make_folder(tmp_path / "etc" / "x", users, {}, {})
    etc._make_folder(tmp_path / "etc" / "x", users, {}, {})
    assert [each.name for each in (tmp_path / "etc").iterdir()] == ["x"]
