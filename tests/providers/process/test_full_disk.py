"""A disk that is full, which is what jobs do: nothing that ends is lost, and what fills it can be removed."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from providers.base import RestartRule
from providers.process.linux import files, procfs
from providers.process.provider import ProcessProvider
from providers.process.supervision.logfile import LogWriter
from providers.process.supervision.state_file import StateFile
from tests.providers.process.kernels import ended, output, said, script, seen, state
from tests.waiting import until

HELD = "touch held; echo up; while test -e held; do sleep 0.05; done; exit"
"""Goes on once its file is gone: to delete one needs no room."""


class Disk:
    """A small one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ballast = folder / "ballast"

    def fill(self) -> None:
        """To the last byte."""
        with contextlib.suppress(OSError), self.ballast.open("ab", buffering=0) as file:
            while True:
                file.write(b"\0" * 4096)

    def free(self) -> None:
        self.ballast.unlink()


@contextlib.contextmanager
def mounted() -> Iterator[Disk]:
    """A file system of 2 MiB; skips the test where none can be mounted."""
    folder = Path(tempfile.mkdtemp(prefix="bai-disk-"))
    options = ["-t", "tmpfs", "-o", "size=2m,mode=0700", "none", str(folder)]
    there = os.geteuid() == 0 and subprocess.run(["mount", *options], capture_output=True).returncode == 0
    try:
        if not there:
            pytest.skip("no file system can be mounted here: that needs root")
        yield Disk(folder)
    finally:
        if there:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)
        folder.rmdir()


@pytest.fixture
def disk() -> Iterator[Disk]:
    with mounted() as found:
        yield found


@pytest.fixture
def provider(disk: Disk, make: Callable[..., ProcessProvider]) -> ProcessProvider:
    return make("groups", root=disk.folder / "root")


def let_go(provider: ProcessProvider, kernel_id: str) -> None:
    (provider.root.folder(kernel_id) / "scratch" / "held").unlink()


def test_how_a_kernel_ended_is_known(disk: Disk, provider: ProcessProvider) -> None:
    kernel = script(f"{HELD} 7")
    provider.create(kernel)
    said(provider, kernel.id, b"up")
    disk.fill()
    let_go(provider, kernel.id)
    kernel_now = ended(provider, kernel.id)
    assert (kernel_now.state, kernel_now.exit_code) == ("exited", 7)


def test_without_any_room_it_is_known_as_soon_as_there_is(disk: Disk, provider: ProcessProvider) -> None:
    kernel = script(f"{HELD} 7")
    provider.create(kernel)
    said(provider, kernel.id, b"up")
    (provider.root.folder(kernel.id) / "state.spare").unlink()
    disk.fill()
    pid, began = (state(provider, kernel.id)[name] for name in ("pid", "pid_start"))
    let_go(provider, kernel.id)
    until(
        lambda: not Path(f"/proc/{pid}").exists() or procfs.start_time(pid) not in (0, began), "it is reaped"
    )
    for _ in range(3):
        assert seen(provider, kernel.id).state == "running"
    disk.free()
    kernel_now = ended(provider, kernel.id)
    assert (kernel_now.state, kernel_now.exit_code) == ("exited", 7)


def test_a_kernel_is_restarted_all_the_same(disk: Disk, provider: ProcessProvider) -> None:
    kernel = script(
        "test -e again || { touch again held; echo up; while test -e held; do sleep 0.05; done; }; exit 3",
        restart=RestartRule("on-failure", 1),
    )
    provider.create(kernel)
    said(provider, kernel.id, b"up")
    disk.fill()
    let_go(provider, kernel.id)
    until(lambda: not seen(provider, kernel.id).pid, "the first run is over")
    disk.free()
    now = ended(provider, kernel.id)
    assert (now.state, now.exit_code, now.restarts) == ("exited", 3, 1)


def test_what_fills_the_disk_can_be_stopped_and_removed(disk: Disk, provider: ProcessProvider) -> None:
    kernel = script("dd if=/dev/zero of=big bs=4096 2>/dev/null; echo full; sleep 300", stop_grace=1.0)
    provider.create(kernel)
    root = disk.folder / "root"
    until(lambda: os.statvfs(root).f_bavail == 0, "the disk is full")
    assert seen(provider, kernel.id).state == "running"
    assert provider.stop(kernel.id, grace=0.1).state == "exited"
    provider.remove(kernel.id)
    assert provider.observe().kernels == ()
    assert os.statvfs(root).f_bavail > 0


def test_a_disk_may_be_full_for_any_number_of_records(disk: Disk) -> None:
    diary = StateFile(str(disk.folder))
    diary.write({"phase": "starting"})
    diary.keep_room()
    disk.fill()
    for number in range(5):
        diary.write({"phase": "running", "restarts": number, "reason": "x" * (40 * number)})
        disk.fill()  # somebody takes each byte that is given back
        assert files.read_json(str(disk.folder / "state.json"))["restarts"] == number
    assert sorted(each.name for each in disk.folder.iterdir()) == ["ballast", "state.json", "state.spare"]


def test_a_file_that_cannot_be_written_leaves_no_draft(disk: Disk) -> None:
    path = disk.folder / "state.json"
    files.write_atomically(str(path), "{}")
    disk.fill()
    with pytest.raises(OSError):
        files.write_atomically(str(path), "x" * 100_000)
    assert path.read_text() == "{}"
    assert sorted(each.name for each in disk.folder.iterdir()) == ["ballast", "state.json"]


def test_a_log_that_cannot_be_rotated_goes_on_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = LogWriter(str(tmp_path), 4096, 2)
    log.write(b"a" * 4096)
    real = os.open

    def full(path: str, *rest: int, **named: int) -> int:
        if str(path).startswith(str(tmp_path)):
            raise OSError(28, "No space left on device")
        return real(path, *rest, **named)

    monkeypatch.setattr(os, "open", full)
    log.write(b"b" * 4096)
    log.write(b"c" * 10)
    monkeypatch.undo()
    log.write(b"d" * 10)
    assert b"d" * 10 in (tmp_path / "log").read_bytes()


def test_output_is_kept_apart_from_all_that(disk: Disk, provider: ProcessProvider) -> None:
    """Lines are lost while there is no room; the kernel is not."""
    kernel = script("i=0; while sleep 0.02; do i=$((i+1)); echo line $i; done")
    provider.create(kernel)
    said(provider, kernel.id, b"line 1\n")
    disk.fill()
    before = output(provider, kernel.id)
    disk.free()
    until(lambda: len(output(provider, kernel.id)) > len(before) + 20, "it goes on")
    assert seen(provider, kernel.id).state == "running"
