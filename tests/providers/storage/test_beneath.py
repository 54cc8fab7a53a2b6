"""Folders opened beneath a root: no link at any step, whichever way the kernel offers."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from providers.storage import beneath

Open = Callable[[str, str], int]


@pytest.fixture(params=["openat2", "walk"])
def opened(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    """`open_beneath` where the kernel has openat2, and where it has not; closes what was opened."""
    if request.param == "walk":
        monkeypatch.setattr(beneath, "at_once", lambda base, steps: None)
    held: list[int] = []

    def open_it(root: str, below: str) -> int:
        held.append(beneath.open_beneath(root, below))
        return held[-1]

    yield open_it
    for each in held:
        os.close(each)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "secret").mkdir()
    (tmp_path / "root" / "a" / "b" / "c").mkdir(parents=True)
    return tmp_path / "root"


def open_paths() -> list[str]:
    """What this process has open, its other threads' included."""
    found = []
    for each in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            found.append(os.readlink(f"/proc/self/fd/{each}"))
    return found


def same(descriptor: int, path: Path) -> bool:
    return os.path.samestat(os.fstat(descriptor), path.stat())


def test_a_folder_and_the_root_itself(opened: Open, root: Path) -> None:
    assert same(opened(str(root), "a/b/c"), root / "a/b/c")
    assert same(opened(str(root), "./a//b/"), root / "a/b")
    assert same(opened(str(root), ""), root)


def test_only_the_way_to_the_root_may_have_links(opened: Open, root: Path, tmp_path: Path) -> None:
    (tmp_path / "way").symlink_to(root)
    assert same(opened(str(tmp_path / "way"), "a"), root / "a")


@pytest.mark.parametrize("step", ["a", "a/b", "a/b/c"])
@pytest.mark.parametrize("target", ["../secret", "/proc/self/root/etc", "b", "/", "nowhere"])
def test_a_link_at_any_step_is_named(opened: Open, root: Path, step: str, target: str) -> None:
    (root / step).rename(root / "aside")
    (root / step).symlink_to(target)
    with pytest.raises(OSError, match=f"{step} is a link") as caught:
        opened(str(root), "a/b/c")
    assert caught.value.errno == errno.ELOOP


def test_a_file_and_what_is_missing_are_named(opened: Open, root: Path) -> None:
    (root / "a" / "file").touch()
    with pytest.raises(NotADirectoryError, match="a/file is not a folder"):
        opened(str(root), "a/file/x")
    with pytest.raises(FileNotFoundError, match="a/none"):
        opened(str(root), "a/none/x")


@pytest.mark.parametrize("below", ["..", "a/../..", "/etc", "a/b/../c", "a\0b"])
def test_paths_that_lead_up_are_refused(opened: Open, root: Path, below: str) -> None:
    with pytest.raises(OSError, match="not a path below"):
        opened(str(root), below)


@pytest.mark.parametrize("above", ["relative", "/tmp/../etc"])
def test_a_root_is_absolute(opened: Open, above: str) -> None:
    with pytest.raises(OSError, match="not an absolute path"):
        opened(above, "a")


def test_what_was_opened_stays_whatever_takes_its_place(opened: Open, root: Path, tmp_path: Path) -> None:
    descriptor = opened(str(root), "a/b")
    (root / "a" / "b").rename(root / "a" / "moved")
    (root / "a" / "b").symlink_to(tmp_path / "secret")
    assert sorted(os.listdir(beneath.reference(descriptor))) == ["c"]


def test_a_link_swapped_in_between_two_steps(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step is taken from the folder that the one before opened, never from a path."""
    monkeypatch.setattr(beneath, "at_once", lambda base, steps: None)
    really = beneath._open

    def swap(here: int, step: str, name: str) -> int:
        found = really(here, step, name)
        if name == "a/b":
            (root / "a").rename(root / "aside")
            (root / "a").symlink_to(tmp_path / "secret")
        return found

    monkeypatch.setattr(beneath, "_open", swap)
    descriptor = beneath.open_beneath(str(root), "a/b/c")
    assert same(descriptor, root / "aside/b/c")
    os.close(descriptor)


def test_no_descriptor_is_left_open(opened: Open, root: Path) -> None:
    (root / "way").symlink_to("a")
    for below in ("way", "none", "a/none", ".."):
        with pytest.raises(OSError):
            opened(str(root), below)
    assert [path for path in open_paths() if path.startswith(str(root))] == []


def test_missing_folders_are_made_and_belong_to_whom_the_one_above_belongs(root: Path) -> None:
    above = root / "a"
    if os.geteuid() == 0:
        os.chown(above, 2000, 2001)
    os.close(beneath.make_beneath(str(root), "a/new/deep", 0o750))
    for made in (above / "new", above / "new" / "deep"):
        found = made.stat()
        assert (found.st_uid, found.st_gid) == (above.stat().st_uid, above.stat().st_gid)
        assert stat.S_IMODE(found.st_mode) == 0o750


def test_nothing_is_made_through_a_link(root: Path, tmp_path: Path) -> None:
    (root / "way").symlink_to(tmp_path / "secret")
    with pytest.raises(OSError, match="way is a link"):
        beneath.make_beneath(str(root), "way/new", 0o755)
    assert list((tmp_path / "secret").iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a folder to another user")
def test_a_folder_put_where_one_was_just_made_keeps_its_rights(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    private = root / "a" / "private"
    private.mkdir(mode=0o700)
    os.chown(private, 4000, 4000)
    make = os.mkdir

    def swap(path: str, mode: int, *, dir_fd: int) -> None:
        make(path, mode, dir_fd=dir_fd)
        (root / "a" / "new").rename(root / "a" / "aside")
        private.rename(root / "a" / "new")

    monkeypatch.setattr(os, "mkdir", swap)
    os.close(beneath.make_beneath(str(root), "a/new", 0o755))
    found = (root / "a" / "new").stat()
    assert (found.st_uid, stat.S_IMODE(found.st_mode)) == (4000, 0o700)


def test_it_runs_with_the_standard_library_alone(root: Path) -> None:
    folder = str(Path(beneath.__file__).parents[2])
    code = (
        "import sys; sys.path.append(sys.argv[1]); before = set(sys.modules)\n"
        "from providers.storage.beneath import open_beneath\n"
        "open_beneath(sys.argv[2], 'a/b'); print(*sorted(set(sys.modules) - before))"
    )
    argv = [sys.executable, "-I", "-S", "-c", code, folder, str(root)]
    said = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()
    assert [name for name in said if name.startswith(("schemas", "pydantic", "reconciler"))] == []
