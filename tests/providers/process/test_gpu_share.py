"""Processes with a part of a GPU: a stand-in for the MPS daemon."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from providers.gpu import shares
from providers.gpu.gpu_share import GpuShare
from providers.gpu.node import mps
from providers.gpu.node.daemon import MpsDaemon
from providers.process import gpu_share as process_share
from providers.process.provider import ProcessProvider
from schemas.problems.errors.kernel import KernelRefused
from tests.providers.gpu.standin import bin_
from tests.providers.process.kernels import ended, output, script, spec
from tests.waiting import until

__all__ = ["bin_"]
GPU = "GPU-aaaa"
HALF = GpuShare("mps", {GPU: 500}, {GPU: 20 << 30})
Make = Callable[..., ProcessProvider]


@pytest.fixture
def place(bin_: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Daemons are kept where the stand-in's fixture ends them."""
    monkeypatch.setattr(process_share.GpuSharing, "_share_host", _place_in(bin_))
    monkeypatch.setattr(process_share, "CHECK_INTERVAL", 0.0)
    return bin_ / "mps"


def _place_in(folder: Path) -> Callable[..., shares.ShareHost]:
    def place(self: process_share.GpuSharing, *, sandboxed: bool) -> shares.ShareHost:
        root, hami = str(folder / "mps"), str(folder / "hami")
        library = (str(folder / "libvgpu.so"),)
        return shares.ShareHost(
            None, "process", "n1", sandboxed, root=root, hami_root=hami, libraries=library
        )

    return place


def daemon(place: Path) -> MpsDaemon:
    return MpsDaemon(place / GPU, GPU)


@pytest.mark.parametrize("kind", ["bare", "sandbox"])
def test_the_daemon_lives_as_long_as_its_sharer(make: Make, place: Path, kind: str) -> None:
    provider = make(kind)
    show = 'echo "$CUDA_MPS_PIPE_DIRECTORY"; ls "$CUDA_MPS_PIPE_DIRECTORY"; sleep 600'
    provider.create(script(show, share=HALF, env={"CUDA_MPS_PIPE_DIRECTORY": "/elsewhere"}))
    assert daemon(place).pid()
    until(lambda: b"control" in output(provider, spec().id))
    seen = output(provider, spec().id).decode().split()[0]
    assert seen == (shares.PIPE if kind == "sandbox" else str(daemon(place).pipe))
    provider.stop(spec().id, grace=0)
    assert daemon(place).pid() == 0
    provider.remove(spec().id)


def test_one_that_died_comes_back_when_somebody_looks(make: Make, place: Path) -> None:
    provider = make("bare")
    provider.create(script("sleep 600", share=HALF))
    (place.parent / "mps").mkdir(exist_ok=True)
    (provider.root.path / "mps").mkdir(exist_ok=True)
    dead = daemon(place).pid()
    os.kill(dead, signal.SIGKILL)
    until(lambda: daemon(place).pid() == 0)
    provider.observe()
    assert daemon(place).pid() not in (0, dead)
    provider.remove(spec().id)
    assert daemon(place).pid() == 0
    assert mps.status({"root": str(place)})[GPU]["holders"] == {}


def test_without_a_daemon_nothing_starts(make: Make, place: Path) -> None:
    (place / GPU / "log").mkdir(parents=True)
    (place / GPU / "log" / "broken").write_text("")
    provider = make("bare")
    with pytest.raises(KernelRefused, match="does not start"):
        provider.create(script("sleep 600", share=HALF))
    assert provider.observe().kernels == ()


def test_hami_is_preloaded(make: Make, place: Path) -> None:
    library = place.parent / "libvgpu.so"
    library.write_bytes(b"no library")
    provider = make("sandbox")
    share = GpuShare("hami", {GPU: 500})
    provider.create(script('echo "$LD_PRELOAD $CUDA_DEVICE_MEMORY_SHARED_CACHE"', share=share))
    assert ended(provider, spec().id).exit_code == 0
    assert b"/run/libvgpu.so /run/hami/vgpu.cache" in output(provider, spec().id)
    provider.remove(spec().id)
    assert not (place.parent / "hami" / "kernels" / spec().id).exists()


def test_means_are_the_same_for_every_node(make: Make) -> None:
    found = make("bare").fractions(["a", "b"])
    assert found["a"] == found["b"]
    assert set(found["a"]) == {"mps", "hami", "mig"}
