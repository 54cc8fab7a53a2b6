"""MPS daemons come with the first sharer and go with the last; checked against a stand-in, never a GPU."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from providers.gpu.gpu_share import GpuShare
from providers.gpu.node import mps
from providers.gpu.node.daemon import MpsDaemon
from providers.gpu.shares import PIPE, ShareHost, available_means, prepare, release, revive
from schemas.problems.errors.kernel import KernelRefused
from tests.providers.gpu.standin import bin_

__all__ = ["bin_"]

GPU, OTHER = "GPU-aaaa", "GPU-bbbb"
GIB = 1 << 30


def half(gpu: str = GPU, milli: int = 500, memory: int = 20 * GIB) -> GpuShare:
    return GpuShare("mps", {gpu: milli}, {gpu: memory} if memory else {})


@pytest.fixture
def place(bin_: Path) -> ShareHost:
    return ShareHost(None, "docker", "n1", root=str(bin_ / "mps"), hami_root=str(bin_ / "hami"))


def pid(place: ShareHost, gpu: str = GPU) -> int:
    return MpsDaemon(Path(place.root) / gpu, gpu).pid()


def ask(place: ShareHost, command: str, gpu: str = GPU) -> str:
    return MpsDaemon(Path(place.root) / gpu, gpu).ask(command)


def wait(true: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not true():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_the_first_sharer_starts_it_and_the_last_stops_it(place: ShareHost) -> None:
    first = prepare(place, "one", half())
    running = pid(place)
    assert running
    assert json.loads(ask(place, "dump"))["gpu"] == GPU
    assert first.env["CUDA_MPS_PIPE_DIRECTORY"] == PIPE
    assert {bound.target: bound.source for bound in first.binds}[PIPE] == f"{place.root}/{GPU}/pipe"
    prepare(place, "two", half(milli=250))
    assert pid(place) == running
    release(place, "one")
    assert pid(place) == running
    release(place, "two")
    assert pid(place) == 0
    assert mps.status({"root": place.root})[GPU]["holders"] == {}


@pytest.mark.parametrize(("old", "options"), [(False, "-d -multiuser-server"), (True, "-d")])
@pytest.mark.skipif(os.geteuid() != 0, reason="only root serves several users")
def test_sharers_may_be_several_users_where_the_driver_can(place: ShareHost, old: bool, options: str) -> None:
    log = Path(place.root) / GPU / "log"
    log.mkdir(parents=True)
    if old:
        (log / "old").touch()
    prepare(place, "one", half())
    assert pid(place)
    assert (log / "options").read_text() == options


def test_each_gpu_has_its_own(place: ShareHost) -> None:
    prepare(place, "one", half())
    prepare(place, "two", half(OTHER))
    assert pid(place) != pid(place, OTHER)
    release(place, "one")
    assert pid(place) == 0
    assert pid(place, OTHER)


def test_nobody_may_have_more_than_the_largest_sharer(place: ShareHost) -> None:
    prepare(place, "one", half(milli=250, memory=10 * GIB))
    ask(place, "start_server -uid 0")
    known = json.loads(ask(place, "dump"))
    assert (known["percent"], known["memory"]) == ("25.0", {"0": "10240M"})
    prepare(place, "two", half(milli=600, memory=48 * GIB))
    known = json.loads(ask(place, "dump"))
    assert (known["percent"], known["memory"]) == ("60.0", {"0": "49152M"})
    assert known["servers"] == [{"percent": "60.0", "0": "49152M"}]
    release(place, "two")
    assert json.loads(ask(place, "dump"))["percent"] == "25.0"


def test_one_that_died_is_started_again(place: ShareHost) -> None:
    prepare(place, "one", half(milli=300))
    dead = pid(place)
    os.kill(dead, signal.SIGKILL)
    wait(lambda: pid(place) == 0)
    assert revive(place) == (GPU,)
    assert pid(place) not in (0, dead)
    assert json.loads(ask(place, "dump"))["percent"] == "30.0"
    assert revive(place) == ()
    os.kill(pid(place), signal.SIGKILL)
    wait(lambda: pid(place) == 0)
    prepare(place, "two", half())
    assert pid(place)


def test_it_is_found_again_by_whoever_asks_next(place: ShareHost) -> None:
    prepare(place, "one", half())
    request = {"do": "hold", "root": place.root, "gpu": GPU, "kernel": "one", "percent": 50}
    again = {**request, "memory": 0, "shm": "own", "running": None}
    script = "import json, sys; from providers.gpu.node.mps import serve; "
    script += "print(json.dumps(serve(json.load(sys.stdin))))"
    done = subprocess.run(
        [sys.executable, "-c", script], input=json.dumps(again), capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["started"] is False
    assert json.loads(done.stdout)["pid"] == pid(place)


def test_what_died_unseen_is_forgotten(place: ShareHost) -> None:
    prepare(place, "gone", half(milli=900))
    prepare(place, "young", half(milli=100))
    holders = Path(place.root) / GPU / "holders"
    os.utime(holders / "gone", (0, 0))
    prepare(place, "one", half(milli=200), running=["one", "elsewhere"])
    assert set(mps.status({"root": place.root})[GPU]["holders"]) == {"one", "young"}
    assert json.loads(ask(place, "dump"))["percent"] == "20.0"
    for left in ("one", "young"):
        os.utime(holders / left, (0, 0))
    release(place, "other", running=[])
    assert pid(place) == 0


def test_one_that_does_not_want_to_end_is_killed(place: ShareHost, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(place, "one", half())
    ask(place, "start_server -uid 0")
    (Path(place.root) / GPU / "log" / "stubborn").write_text("")
    real, short = MpsDaemon._wait, iter([1.0, 1.0])
    # Once it is killed, it takes as long as the machine does.
    monkeypatch.setattr(
        MpsDaemon, "_wait", lambda self, true, what, patience=0.0: real(self, true, what, next(short, 60.0))
    )
    release(place, "one")
    assert pid(place) == 0
    assert MpsDaemon(Path(place.root) / GPU, GPU)._processes_left() == []


def test_one_that_does_not_start_is_said_and_nobody_holds_it(place: ShareHost) -> None:
    log = Path(place.root) / GPU / "log"
    log.mkdir(parents=True)
    (log / "broken").write_text("")
    with pytest.raises(KernelRefused, match="n1: nvidia-cuda-mps-control does not start: Cannot find"):
        prepare(place, "one", half())
    assert mps.status({"root": place.root})[GPU] == {"pid": 0, "holders": {}}


def test_a_folder_too_deep_for_its_sockets_is_said(place: ShareHost, bin_: Path) -> None:
    deep = dataclasses.replace(place, root=str(bin_ / "mps" / ("deep" * 20)))
    with pytest.raises(KernelRefused, match=r"/pipe is \d+ bytes too long for the paths of MPS's sockets"):
        prepare(deep, "one", half())
    assert pid(deep) == 0 and not any((Path(deep.root) / GPU / "holders").iterdir())


def test_parts_of_two_gpus_are_refused(place: ShareHost) -> None:
    with pytest.raises(KernelRefused, match="a part of one GPU only"):
        prepare(place, "one", GpuShare("mps", {GPU: 500, OTHER: 500}))


def test_ids_that_lead_elsewhere_are_refused(place: ShareHost) -> None:
    with pytest.raises(KernelRefused, match="not the id of a GPU"):
        prepare(place, "one", half("../elsewhere"))


def test_outside_of_a_container_it_uses_the_machines_shared_memory(place: ShareHost) -> None:
    outside = ShareHost(None, "process", "n1", inside=False, root=place.root, hami_root=place.hami_root)
    given = prepare(outside, "one", half())
    assert given.env["CUDA_MPS_PIPE_DIRECTORY"] == f"{place.root}/{GPU}/pipe"
    assert given.binds == ()
    mine = os.readlink("/proc/self/ns/mnt")
    assert os.readlink(f"/proc/{pid(place)}/ns/mnt") == mine


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a daemon shared memory of its own")
def test_containers_share_memory_with_the_daemon_alone(place: ShareHost) -> None:
    given = prepare(place, "one", half())
    if given.host_ipc:
        pytest.skip("nothing can be mounted here")
    assert os.readlink(f"/proc/{pid(place)}/ns/mnt") != os.readlink("/proc/self/ns/mnt")
    shm = next(bound.source for bound in given.binds if bound.target == "/dev/shm")
    Path(shm, "mark").write_text("here")
    assert Path(f"/proc/{pid(place)}/root/dev/shm/mark").read_text() == "here"
    outside = ShareHost(None, "process", "n1", inside=False, root=place.root, hami_root=place.hami_root)
    with pytest.raises(KernelRefused, match="serves containers"):
        prepare(outside, "two", half())


ROW = "GPU-a, Default, Disabled, 9.0, 580.1\n"
SMI = """#!/bin/sh
[ "$1" = "--query-gpu=uuid,compute_mode,mig.mode.current,compute_cap,driver_version" ] || exit 2
cat "$(dirname "$0")/gpus"
"""


@pytest.mark.parametrize(
    ("gpus", "mps_", "mig"),
    [
        (ROW, "", "no GPU is in MIG mode"),
        ("GPU-a, Exclusive_Process, [N/A], 7.0, 580.1\n", "", "no GPU is in MIG mode"),
        ("GPU-a, Prohibited, Disabled, 9.0, 580.1\n", "the compute mode of GPU-a is Prohibited", "no GPU"),
        (
            "GPU-a, Default, Disabled, 9.0, 580.1\nGPU-b, Default, Enabled, 9.0, 580.1\n",
            "GPU-b is in MIG mode",
            "",
        ),
        ("GPU-a, Default, [N/A], 6.1, 580.1\n", "GPU-a has compute capability 6.1", "no GPU is in MIG mode"),
        ("", "it has no NVIDIA GPU", "it has no NVIDIA GPU"),
    ],
)
def test_what_a_node_can_enforce(place: ShareHost, bin_: Path, gpus: str, mps_: str, mig: str) -> None:
    (bin_ / "nvidia-smi").write_text(SMI)
    (bin_ / "nvidia-smi").chmod(0o755)
    (bin_ / "gpus").write_text(gpus)
    found = available_means(place).missing
    assert found["mps"].startswith(mps_) if mps_ else found["mps"] == ""
    assert found["mig"].startswith(mig) if mig else found["mig"] == ""
    assert found["hami"]


def test_without_a_driver_nothing_can_be_enforced(place: ShareHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert set(available_means(place).missing.values()) == {"nvidia-smi is not installed"}


def test_hami_has_its_library_and_a_cache_per_kernel(place: ShareHost, bin_: Path) -> None:
    library = bin_ / "libvgpu.so"
    lacking = ShareHost(None, "docker", "n1", hami_root=place.hami_root, libraries=(str(library),))
    share = GpuShare("hami", {GPU: 500, OTHER: 500})
    with pytest.raises(KernelRefused, match=r"libvgpu\.so is not at"):
        prepare(lacking, "one", share)
    library.write_bytes(b"ELF")
    given = prepare(lacking, "one", share)
    sources = {bound.target: (bound.source, bound.read_only) for bound in given.binds}
    assert sources["/usr/local/vgpu/libvgpu.so"] == (str(library), True)
    assert given.env["LD_PRELOAD"] == "/usr/local/vgpu/libvgpu.so"
    cache = Path(sources["/run/hami"][0])
    (cache / "vgpu.cache").write_text("old limits")
    prepare(lacking, "two", share)
    assert list(cache.iterdir())
    prepare(lacking, "one", share)
    assert list(cache.iterdir()) == []
    hami_only = ShareHost(None, "docker", "n1", root=place.root, hami_root=place.hami_root)
    release(hami_only, "one")
    assert not cache.exists()
