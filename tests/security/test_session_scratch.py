"""A hostile session that wants to fill its node's disk, or to break whoever counts what it has written.

Where quotas hold sessions, `tests/integration/test_scratch_quota.py` attacks them.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from providers.base import KernelSpec, Mount, Observed, RestartRule
from providers.process.provider import ProcessProvider
from providers.process.supervision import scratch as held
from providers.storage.node import usage
from tests.providers.process.conftest import make, provider
from tests.providers.process.kernels import ended, running_of, script, seen, spec, state
from tests.waiting import until

__all__ = ["make", "provider"]
pytestmark = pytest.mark.slow
Make = Callable[..., ProcessProvider]
MIB = 1 << 20
PYTHON = Mount(sys.base_prefix, sys.base_prefix, read_only=True)
FILL = "i=0; while :; do i=$((i+1)); head -c 1048576 /dev/zero > f$i; sleep 0.02; done"


@pytest.fixture(autouse=True)
def _counted(tmp_path_factory: pytest.TempPathFactory) -> None:
    """These are about what is counted."""
    if not held.quota_problem(str(tmp_path_factory.getbasetemp()), sandboxed=True):
        pytest.skip("the file system of temporary files has project quotas")


def _stopped(provider: ProcessProvider, kernel: str) -> Observed:
    found = ended(provider, kernel)
    assert found.state == "exited" and found.reason.startswith("scratch-full: "), found
    return found


def test_who_writes_more_is_stopped_and_it_is_said_why(provider: ProcessProvider) -> None:
    kernel = provider.create(script(FILL, scratch=8 * MIB))
    assert kernel.scratch == 8 * MIB
    found = _stopped(provider, kernel.id)
    used = int(found.reason.removeprefix("scratch-full: ").partition("MiB")[0])
    assert used > 8 and found.reason.endswith("MiB used, 8MiB allowed") and found.exit_code == 143


def test_who_does_not_listen_is_killed_soon_whatever_grace_it_has(make: Make) -> None:
    provider = make("sandbox")
    kernel = provider.create(script(f"trap '' TERM; {FILL}", scratch=4 * MIB, stop_grace=86_400.0))
    assert _stopped(provider, kernel.id).exit_code == 137


def test_it_is_not_started_again(make: Make) -> None:
    provider = make("sandbox")
    kernel = provider.create(script(FILL, scratch=4 * MIB, restart=RestartRule("always")))
    assert _stopped(provider, kernel.id).restarts == 0


DEEP = """
import os, time
for _ in range(3000):
    os.mkdir("d")
    os.chdir("d")
time.sleep(300)
"""
MAPPED = """
import mmap, os, time
file = os.open("big", os.O_RDWR | os.O_CREAT)
os.ftruncate(file, 16 << 20)
shown = mmap.mmap(file, 16 << 20)
os.close(file)
os.unlink("big")
for page in range(0, 16 << 20, 4096):
    shown[page] = 1
shown.flush()
time.sleep(300)
"""


@pytest.mark.parametrize(
    "way",
    [
        "exec 7> big; rm big; head -c 16777216 /dev/zero >&7; sleep 300",
        "mkdir shut; head -c 16777216 /dev/zero > shut/big; chmod 000 shut; sleep 300",
        "i=0; while :; do i=$((i+1)); true > $i; done",
        "i=0; while :; do i=$((i+1)); mkdir -p d/$i/$i; done",
        "i=0; while :; do i=$((i+1)); ln -s nowhere $i; done",
    ],
    ids=["deleted", "shut", "empty-files", "folders", "links"],
)
def test_what_is_hidden_counts(make: Make, way: str) -> None:
    provider = make("sandbox")
    found = _stopped(provider, provider.create(script(way, scratch=4 * MIB)).id)
    assert found.reason.endswith("MiB used, 4MiB allowed")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root sees what is deleted and only in memory")
def test_a_deleted_file_that_is_only_in_memory_counts(make: Make) -> None:
    provider = make("sandbox")
    found = _stopped(provider, provider.create(_python(MAPPED, 4 * MIB)).id)
    assert found.reason.endswith("MiB used, 4MiB allowed")


def test_folders_that_are_nested_too_deep_end_it_and_are_removed(make: Make) -> None:
    provider = make("sandbox")
    kernel = provider.create(_python(DEEP, 1024 * MIB))
    assert _stopped(provider, kernel.id).reason == "scratch-full: its files cannot be counted"
    provider.remove(kernel.id)
    assert not provider.root.folder(kernel.id).exists() and not os.listdir(provider.root.path / "trash")


def _python(text: str, most: int) -> KernelSpec:
    path = {"PATH": f"{sys.base_prefix}/bin:/usr/bin:/bin"}
    return spec("python3", "-c", text, scratch=most, mounts=(PYTHON,), env=path)


def test_what_takes_no_room_is_allowed(tmp_path: Path) -> None:
    """Sparse files, names of one file, links to elsewhere."""
    text = (
        "truncate -s 1T sparse; head -c 1048576 /dev/zero > one; mkdir many; "
        "i=0; while test $i -lt 50; do i=$((i+1)); ln one many/$i; done; ln -s / root; ln -s . loop"
    )
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    subprocess.run(["sh", "-c", text], cwd=scratch, check=True)
    assert _judged(tmp_path, 2 * MIB)["why"] == ""
    assert _judged(tmp_path, MIB)["why"] == "scratch-full: 2MiB used, 1MiB allowed"


JUDGE = """
import json, resource, select, sys
from providers.process.supervision.file_count import ScratchCounter
counter = ScratchCounter(sys.argv[1], "/home/work")
counter.renew()
why, rounds = "", 0
while rounds < 2:
    counter.begin([])
    while counter.answer >= 0:
        select.select([counter.answer], [], [])
        why = counter.read_answer()
    rounds += 1
import os
os.wait(), os.wait()
print(json.dumps({"why": why, "memory": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10}))
"""


def _judged(kernel: Path, most: int) -> dict[str, Any]:
    """What two counts of a kernel's folder say, as its supervisor makes them, and the memory they took."""
    kernel.mkdir(exist_ok=True)
    (kernel / "intent.json").write_text(json.dumps({"spec": {"scratch": most}}))
    words = [sys.executable, "-c", JUDGE, str(kernel)]
    done = subprocess.run(words, check=True, capture_output=True, timeout=120)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_names_of_any_bytes_and_changes_meanwhile_stop_no_count(tmp_path: Path) -> None:
    """Names that are no text, FIFOs, sockets, and folders that are exchanged all the time."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    for number in range(200):
        folder = os.fsencode(scratch) + b"/\xff\n" + str(number).encode()
        os.makedirs(folder + b"/below")
        os.mkfifo(folder + b"/pipe")
    turn = "cd $1; while :; do for i in *; do mv $i/below $i.x; rm -rf $i.x; mkdir -p $i/below/b; done; done"
    with subprocess.Popen(["sh", "-c", turn, "sh", str(scratch)], stderr=subprocess.DEVNULL) as hostile:
        try:
            for _ in range(5):
                assert _judged(tmp_path, 64 * MIB)["why"] == ""
        finally:
            hostile.kill()


def test_a_huge_tree_takes_little_memory_and_ends_early(tmp_path: Path) -> None:
    """Every name counts: so many cannot be below the limit, and nobody looks at the rest."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    (scratch / "first").touch()
    for number in range(30_000):
        os.symlink("nowhere", scratch / f"{number}-{'x' * 200}")
    plain = _judged(tmp_path / "nothing", 1)["memory"]
    huge = _judged(tmp_path, 8 * MIB)
    assert huge["why"] == "scratch-full: 17MiB used, 8MiB allowed"
    assert huge["memory"] - plain < 16 * MIB


def test_names_of_more_files_than_can_be_remembered_count_for_their_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(40):
        (tmp_path / f"{number}").write_bytes(b"x" * 8192)
        os.link(tmp_path / f"{number}", tmp_path / f"{number}-again")
    exact = _count(tmp_path)
    monkeypatch.setattr(usage, "_REMEMBERED", 10)
    assert _count(tmp_path) == exact


def _count(folder: Path) -> int:
    opened = os.open(folder, os.O_RDONLY)
    try:
        return usage.count_usage(opened)[0]
    finally:
        os.close(opened)


def test_a_supervisor_that_dies_while_it_counts_leaves_nothing(make: Make) -> None:
    """Whoever counts holds no lock of the supervisor's: the kernel is seen to be lost."""
    provider = make("sandbox")
    kernel = provider.create(script("sleep 300", scratch=4 * MIB))
    keeper = int(state(provider, kernel.id)["supervisor"])
    os.kill(keeper, signal.SIGKILL)
    until(lambda: seen(provider, kernel.id).state == "lost", "it is lost")
    until(lambda: not running_of(provider), "nothing runs on")
