"""MPS daemons come with the first sharer and go with the last; checked against a stand-in, never a GPU."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from providers.base import Share
from providers.gpu.node import mps
from providers.gpu.node.daemon import Daemon
from providers.gpu.shares import PIPE, Place, give, means, revive, take
from schemas.problems.errors import KernelRefused
from tests.providers.gpu.standin import bin_

__all__ = ["bin_"]

GPU, OTHER = "GPU-aaaa", "GPU-bbbb"
GIB = 1 << 30


def half(gpu: str = GPU, milli: int = 500, memory: int = 20 * GIB) -> Share:
    return Share("mps", {gpu: milli}, {gpu: memory} if memory else {})


@pytest.fixture
def place(bin_: Path) -> Place:
    return Place(None, "docker", "n1", root=str(bin_ / "mps"), hami_root=str(bin_ / "hami"))


def pid(place: Place, gpu: str = GPU) -> int:
    return Daemon(Path(place.root) / gpu, gpu).pid()


def ask(place: Place, command: str, gpu: str = GPU) -> str:
    return Daemon(Path(place.root) / gpu, gpu).ask(command)


def wait(true: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not true():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_the_first_sharer_starts_it_and_the_last_stops_it(place: Place) -> None:
    first = give(place, "one", half())
    running = pid(place)
    assert running
    assert json.loads(ask(place, "dump"))["gpu"] == GPU
    assert first.env["CUDA_MPS_PIPE_DIRECTORY"] == PIPE
    assert {bound.target: bound.source for bound in first.binds}[PIPE] == f"{place.root}/{GPU}/pipe"
    give(place, "two", half(milli=250))
    assert pid(place) == running
    take(place, "one")
    assert pid(place) == running
    take(place, "two")
    assert pid(place) == 0
    assert mps.status({"root": place.root})[GPU]["holders"] == {}


@pytest.mark.parametrize(("old", "options"), [(False, "-d -multiuser-server"), (True, "-d")])
@pytest.mark.skipif(os.geteuid() != 0, reason="only root serves several users")
def test_sharers_may_be_several_users_where_the_driver_can(place: Place, old: bool, options: str) -> None:
    log = Path(place.root) / GPU / "log"
    log.mkdir(parents=True)
    if old:
        (log / "old").touch()
    give(place, "one", half())
    assert pid(place)
    assert (log / "options").read_text() == options


def test_each_gpu_has_its_own(place: Place) -> None:
    give(place, "one", half())
    give(place, "two", half(OTHER))
    assert pid(place) != pid(place, OTHER)
    take(place, "one")
    assert pid(place) == 0
    assert pid(place, OTHER)


def test_nobody_may_have_more_than_the_largest_sharer(place: Place) -> None:
    give(place, "one", half(milli=250, memory=10 * GIB))
    ask(place, "start_server -uid 0")
    known = json.loads(ask(place, "dump"))
    assert (known["percent"], known["memory"]) == ("25.0", {"0": "10240M"})
    give(place, "two", half(milli=600, memory=48 * GIB))
    known = json.loads(ask(place, "dump"))
    assert (known["percent"], known["memory"]) == ("60.0", {"0": "49152M"})
    assert known["servers"] == [{"percent": "60.0", "0": "49152M"}]
    take(place, "two")
    assert json.loads(ask(place, "dump"))["percent"] == "25.0"


def test_one_that_died_is_started_again(place: Place) -> None:
    give(place, "one", half(milli=300))
    dead = pid(place)
    os.kill(dead, signal.SIGKILL)
    wait(lambda: pid(place) == 0)
    assert revive(place) == (GPU,)
    assert pid(place) not in (0, dead)
    assert json.loads(ask(place, "dump"))["percent"] == "30.0"
    assert revive(place) == ()
    os.kill(pid(place), signal.SIGKILL)
    wait(lambda: pid(place) == 0)
    give(place, "two", half())
    assert pid(place)


def test_it_is_found_again_by_whoever_asks_next(place: Place) -> None:
    give(place, "one", half())
    request = {"do": "hold", "root": place.root, "gpu": GPU, "kernel": "one", "percent": 50}
    again = {**request, "memory": 0, "shm": "own", "running": None}
    script = "import json, sys; from providers.gpu.node.mps import serve; "
    script += "print(json.dumps(serve(json.load(sys.stdin))))"
    done = subprocess.run(
        [sys.executable, "-c", script], input=json.dumps(again), capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["started"] is False
    assert json.loads(done.stdout)["pid"] == pid(place)


def test_what_died_unseen_is_forgotten(place: Place) -> None:
    give(place, "gone", half(milli=900))
    give(place, "young", half(milli=100))
    holders = Path(place.root) / GPU / "holders"
    os.utime(holders / "gone", (0, 0))
    give(place, "one", half(milli=200), running=["one", "elsewhere"])
    assert set(mps.status({"root": place.root})[GPU]["holders"]) == {"one", "young"}
    assert json.loads(ask(place, "dump"))["percent"] == "20.0"
    for left in ("one", "young"):
        os.utime(holders / left, (0, 0))
    take(place, "other", running=[])
    assert pid(place) == 0


def test_one_that_does_not_want_to_end_is_killed(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    give(place, "one", half())
    ask(place, "start_server -uid 0")
    (Path(place.root) / GPU / "log" / "stubborn").write_text("")
    real = Daemon._wait
    monkeypatch.setattr(Daemon, "_wait", lambda self, true, what, patience=60.0: real(self, true, what, 1.0))
    take(place, "one")
    assert pid(place) == 0
    assert Daemon(Path(place.root) / GPU, GPU)._left() == []


def test_one_that_does_not_start_is_said_and_nobody_holds_it(place: Place) -> None:
    log = Path(place.root) / GPU / "log"
    log.mkdir(parents=True)
    (log / "broken").write_text("")
    with pytest.raises(KernelRefused, match="n1: nvidia-cuda-mps-control does not start: Cannot find"):
        give(place, "one", half())
    assert mps.status({"root": place.root})[GPU] == {"pid": 0, "holders": {}}


def test_parts_of_two_gpus_are_refused(place: Place) -> None:
    with pytest.raises(KernelRefused, match="a part of one GPU only"):
        give(place, "one", Share("mps", {GPU: 500, OTHER: 500}))


def test_ids_that_lead_elsewhere_are_refused(place: Place) -> None:
    with pytest.raises(KernelRefused, match="not the id of a GPU"):
        give(place, "one", half("../elsewhere"))


def test_outside_of_a_container_it_uses_the_machines_shared_memory(place: Place) -> None:
    outside = Place(None, "process", "n1", inside=False, root=place.root, hami_root=place.hami_root)
    given = give(outside, "one", half())
    assert given.env["CUDA_MPS_PIPE_DIRECTORY"] == f"{place.root}/{GPU}/pipe"
    assert given.binds == ()
    mine = os.readlink("/proc/self/ns/mnt")
    assert os.readlink(f"/proc/{pid(place)}/ns/mnt") == mine


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a daemon shared memory of its own")
def test_containers_share_memory_with_the_daemon_alone(place: Place) -> None:
    given = give(place, "one", half())
    if given.host_ipc:
        pytest.skip("nothing can be mounted here")
    assert os.readlink(f"/proc/{pid(place)}/ns/mnt") != os.readlink("/proc/self/ns/mnt")
    shm = next(bound.source for bound in given.binds if bound.target == "/dev/shm")
    Path(shm, "mark").write_text("here")
    assert Path(f"/proc/{pid(place)}/root/dev/shm/mark").read_text() == "here"
    outside = Place(None, "process", "n1", inside=False, root=place.root, hami_root=place.hami_root)
    with pytest.raises(KernelRefused, match="serves containers"):
        give(outside, "two", half())


SMI = """#!/bin/sh
[ "$1" = "--query-gpu=uuid,compute_mode,mig.mode.current,compute_cap" ] || exit 2
cat "$(dirname "$0")/gpus"
"""


@pytest.mark.parametrize(
    ("gpus", "mps_", "mig"),
    [
        ("GPU-a, Default, Disabled, 9.0\n", "", "no GPU is in MIG mode"),
        ("GPU-a, Exclusive_Process, [N/A], 7.0\n", "", "no GPU is in MIG mode"),
        ("GPU-a, Prohibited, Disabled, 9.0\n", "the compute mode of GPU-a is Prohibited", "no GPU"),
        ("GPU-a, Default, Disabled, 9.0\nGPU-b, Default, Enabled, 9.0\n", "GPU-b is in MIG mode", ""),
        ("GPU-a, Default, [N/A], 6.1\n", "GPU-a has compute capability 6.1", "no GPU is in MIG mode"),
        ("", "it has no NVIDIA GPU", "it has no NVIDIA GPU"),
    ],
)
def test_what_a_node_can_enforce(place: Place, bin_: Path, gpus: str, mps_: str, mig: str) -> None:
    (bin_ / "nvidia-smi").write_text(SMI)
    (bin_ / "nvidia-smi").chmod(0o755)
    (bin_ / "gpus").write_text(gpus)
    found = means(place)
    assert found["mps"].startswith(mps_) if mps_ else found["mps"] == ""
    assert found["mig"].startswith(mig) if mig else found["mig"] == ""
    assert found["hami"]


def test_without_a_driver_nothing_can_be_enforced(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert set(means(place).values()) == {"nvidia-smi is not installed"}


def test_hami_has_its_library_and_a_cache_per_kernel(place: Place, bin_: Path) -> None:
    library = bin_ / "libvgpu.so"
    lacking = Place(None, "docker", "n1", hami_root=place.hami_root, libraries=(str(library),))
    share = Share("hami", {GPU: 500, OTHER: 500})
    with pytest.raises(KernelRefused, match=r"libvgpu\.so is not at"):
        give(lacking, "one", share)
    library.write_bytes(b"ELF")
    given = give(lacking, "one", share)
    sources = {bound.target: (bound.source, bound.read_only) for bound in given.binds}
    assert sources["/usr/local/vgpu/libvgpu.so"] == (str(library), True)
    assert given.env["LD_PRELOAD"] == "/usr/local/vgpu/libvgpu.so"
    cache = Path(sources["/run/hami"][0])
    (cache / "vgpu.cache").write_text("old limits")
    give(lacking, "two", share)
    assert list(cache.iterdir())
    give(lacking, "one", share)
    assert list(cache.iterdir()) == []
    hami_only = Place(None, "docker", "n1", root=place.root, hami_root=place.hami_root)
    take(hami_only, "one")
    assert not cache.exists()
