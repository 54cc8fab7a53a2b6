"""Checks of HAMi-core on one machine have the folder of its lock together, and leave nothing of it behind."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

from providers.gpu.node import enforcement_check, hami, hami_lock


@pytest.fixture
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(hami, "LOCK", str(tmp_path / "place" / "vgpulock"))
    (tmp_path / "place").mkdir()
    (tmp_path / "libvgpu.so").touch()
    return tmp_path / "place" / "vgpulock"


def check(lock: Path, name: str) -> contextlib.AbstractContextManager[dict[str, Any]]:
    """One of a root of its own."""
    top = lock.parents[1]
    return enforcement_check._hami({"hami_root": str(top / name), "libraries": [str(top / "libvgpu.so")]})


def test_the_last_check_takes_it_away(lock: Path) -> None:
    first, second = contextlib.ExitStack(), contextlib.ExitStack()
    for ends, stays in ((first, second), (second, first)):
        first.enter_context(check(lock, "one"))
        second.enter_context(check(lock, "two"))
        assert lock.stat().st_mode & 0o7777 == 0o1777
        ends.close()
        (lock / "lock").touch()
        stays.close()
        assert os.listdir(lock.parent) == []


def test_checks_that_begin_at_once_do_not_hinder_each_other(
    lock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not there when one looks, and there when it is to be made; or there, and gone when opened."""
    make, there = tempfile.mkdtemp, os.path.lexists
    with contextlib.ExitStack() as other:

        def made_meanwhile(**words: str) -> str:
            monkeypatch.undo()
            monkeypatch.setattr(hami, "LOCK", str(lock))
            other.enter_context(hami_lock.shared_lock())
            return make(**words)

        monkeypatch.setattr(tempfile, "mkdtemp", made_meanwhile)
        with check(lock, "one"):
            assert lock.is_dir()

        def gone_meanwhile(path: str) -> bool:
            found = there(path)
            other.close()
            return found

        monkeypatch.setattr(os.path, "lexists", gone_meanwhile)
        with check(lock, "one"):
            assert lock.is_dir()
    assert os.listdir(lock.parent) == []


def test_what_a_killed_check_left_goes_with_the_next_one(lock: Path) -> None:
    hami_lock._make()
    (lock / "lock").touch()
    with check(lock, "one"):
        pass
    assert os.listdir(lock.parent) == []


def test_what_others_made_stays(lock: Path) -> None:
    lock.mkdir(0o777)
    (lock / "lock").touch()
    with check(lock, "one"):
        assert len(os.listdir(lock)) == 2
    assert os.listdir(lock) == ["lock"]


def test_another_users_checks_keep_it(lock: Path) -> None:
    with check(lock, "one"):
        (lock / "bai-4242").touch()
    assert sorted(os.listdir(lock)) == sorted(["bai-4242", hami_lock._own()])
    (lock / "bai-4242").unlink()
    with check(lock, "one"):
        pass
    assert os.listdir(lock.parent) == []


def test_no_link_is_followed(lock: Path) -> None:
    theirs = lock.parent / "theirs"
    theirs.mkdir()
    lock.symlink_to(theirs)
    with check(lock, "one"):
        assert os.listdir(theirs) == []
    assert lock.is_symlink()
    lock.unlink()
    lock.mkdir()
    (lock / hami_lock._own()).symlink_to(theirs / "file")
    with check(lock, "one"):
        assert os.listdir(theirs) == []
