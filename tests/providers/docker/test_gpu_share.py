"""Containers with a part of a GPU: a real engine, and a stand-in for the MPS daemon."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from providers.abilities import ReportsFractions
from providers.docker.container import gpu_share as docker_share
from providers.gpu import shares
from providers.gpu.gpu_share import GpuShare
from providers.gpu.node.daemon import MpsDaemon
from schemas.problems.errors.kernel import KernelRefused
from schemas.problems.errors.provider import ProviderError
from tests.lab.docker import Engines
from tests.providers.docker.conftest import Open
from tests.providers.docker.specs import kernel
from tests.providers.gpu.standin import bin_
from tests.waiting import until

__all__ = ["bin_"]
pytestmark = pytest.mark.xdist_group("docker")
GPU = "GPU-aaaa"
HALF = GpuShare("mps", {GPU: 500}, {GPU: 20 << 30})


@pytest.fixture
def daemon(bin_: Path, monkeypatch: pytest.MonkeyPatch) -> MpsDaemon:
    """The daemon of the GPU, where the provider would keep it."""
    monkeypatch.setattr(shares, "ROOT", str(bin_ / "mps"))
    monkeypatch.setattr(shares, "HAMI_ROOT", str(bin_ / "hami"))
    monkeypatch.setattr(docker_share, "CHECK_INTERVAL", 0.0)
    return MpsDaemon(bin_ / "mps" / GPU, GPU)


def test_a_container_has_the_daemons_pipe_and_its_shared_memory(
    on_engines: Open, engines: Engines, daemon: MpsDaemon
) -> None:
    provider = on_engines()
    assert isinstance(provider, ReportsFractions)
    env = {"CUDA_MPS_PIPE_DIRECTORY": "/elsewhere", "MINE": "yes"}
    made = provider.create(kernel(share=HALF, env=env, shm=8 << 20))
    assert daemon.pid()
    (engine,) = engines(1)
    found = engine.inspect(made.id)
    binds = {mount["Destination"]: (mount["Source"], mount["RW"]) for mount in found["Mounts"]}
    assert binds[shares.PIPE] == (str(daemon.pipe), True)
    assert f"CUDA_MPS_PIPE_DIRECTORY={shares.PIPE}" in found["Config"]["Env"]
    assert "MINE=yes" in found["Config"]["Env"]
    assert engine.docker("exec", made.id, "ls", shares.PIPE).split() == ["control"]
    if found["HostConfig"]["IpcMode"] != "host":
        engine.docker("exec", made.id, "sh", "-c", "echo here > /dev/shm/mark")
        assert Path(f"/proc/{daemon.pid()}/root/dev/shm/mark").read_text() == "here\n"
    provider.remove(made.id)
    assert daemon.pid() == 0


def test_it_goes_with_the_last_that_lives(on_engines: Open, daemon: MpsDaemon) -> None:
    provider = on_engines()
    provider.create(kernel("one", share=HALF))
    provider.create(kernel("two", share=replace(HALF, milli={GPU: 250})))
    provider.stop("one", grace=0)
    assert daemon.pid()
    provider.stop("two", grace=0)
    assert daemon.pid() == 0


def test_one_that_died_comes_back_when_somebody_looks(on_engines: Open, daemon: MpsDaemon) -> None:
    provider = on_engines()
    provider.create(kernel("one", share=HALF))
    dead = daemon.pid()
    os.kill(dead, signal.SIGKILL)
    until(lambda: daemon.pid() == 0)
    provider.observe()
    assert daemon.pid() not in (0, dead)


def test_a_container_that_cannot_be_made_holds_nothing(on_engines: Open, daemon: MpsDaemon) -> None:
    with pytest.raises(ProviderError):
        on_engines().create(kernel("one", share=HALF, image="not-there:1"))
    assert daemon.pid() == 0


def test_hami_is_preloaded_with_a_cache_of_its_own(
    on_engines: Open, engines: Engines, daemon: MpsDaemon, bin_: Path
) -> None:
    provider = on_engines(hami=str(bin_ / "libvgpu.so"))
    share = GpuShare("hami", {GPU: 500})
    with pytest.raises(KernelRefused, match="is not at"):
        provider.create(kernel("one", share=share))
    (bin_ / "libvgpu.so").write_bytes(b"not loaded by a static busybox")
    provider.create(kernel("one", share=share, env={"LD_PRELOAD": "/mine.so"}))
    found = engines(1)[0].inspect("one")
    assert "LD_PRELOAD=/usr/local/vgpu/libvgpu.so:/mine.so" in found["Config"]["Env"]
    cache = next(mount["Source"] for mount in found["Mounts"] if mount["Destination"] == "/run/hami")
    assert Path(cache).is_dir()
    provider.remove("one")
    assert not Path(cache).exists()


def test_what_a_node_can_enforce_is_told_by_node(on_engines: Open, daemon: MpsDaemon) -> None:
    provider = on_engines()
    (found,) = provider.fractions(provider.engines).values()
    assert set(found) == {"mps", "hami", "mig"}
    assert provider.fractions([]) == {}
