"""What a kernel needs so that the limits on its parts of GPUs hold, put on its node and taken away again."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from providers.base import Share
from providers.gpu.node import hami, mps, probe
from providers.machines.base import Machine
from providers.machines.remote_modules import call
from schemas.problems.errors import KernelRefused, ProviderError

ROOT = "/run/bai/mps"
HAMI_ROOT = "/run/bai/hami"
LIBRARIES = ("/usr/local/vgpu/libvgpu.so", "/usr/local/lib/libvgpu.so", "/usr/lib/libvgpu.so")
"""Where HAMi-core is looked for when no option says where."""
PIPE, LOG = "/run/nvidia-mps/pipe", "/run/nvidia-mps/log"
"""Where a container finds its MPS daemon."""
_HERE = "providers.gpu.node"
_MPS = (f"{_HERE}.daemon", f"{_HERE}.mps")
_HAMI = (f"{_HERE}.hami",)
_PROBE = (f"{_HERE}.daemon", f"{_HERE}.probe")


@dataclass(frozen=True, slots=True)
class Bound:
    """A folder or file of the node, as the kernel sees it."""

    source: str
    target: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Given:
    """What a kernel gets beyond its spec. `host_ipc`: it must share the machine's own shared memory."""

    env: Mapping[str, str] = field(default_factory=dict)
    binds: tuple[Bound, ...] = ()
    host_ipc: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """Where kernels run: the machine (None: this one), what they see of it, and where its things are."""

    machine: Machine | None
    provider: str
    node: str
    inside: bool = True
    """A kernel has a view of files of its own; False: it sees the machine's."""
    root: str = ROOT
    hami_root: str = HAMI_ROOT
    libraries: Sequence[str] = LIBRARIES


def problem(share: Share | None) -> str:
    """Why these parts cannot be had together; empty when they can."""
    if share is None or share.means != "mps" or len(share.milli) < 2:
        return ""
    return (
        "a kernel is a client of one MPS daemon, and each GPU has its own: it can have a part of one GPU only"
    )


def means(place: Place) -> Mapping[str, str]:
    """Means (`mps`, `hami`, `mig`) → why the node cannot enforce parts so; empty when it can. Raises
    ProviderError."""
    request = {"libraries": list(place.libraries)}
    found = probe.serve(request) if place.machine is None else call(place.machine, _PROBE, request)
    return cast(Mapping[str, str], found)


def give(place: Place, kernel: str, share: Share | None, running: Collection[str] | None = None) -> Given:
    """Everything that the kernel's parts of GPUs need. `running`: the kernels that live on the node, so that
    what the others left behind is cleared away. Raises KernelRefused, ProviderUnavailable."""
    if share is None or share.means in ("none", "mig"):
        return Given()
    if why := problem(share):
        raise KernelRefused(provider=place.provider, kernel=kernel, why=why)
    if share.means == "mps":
        return _mps_given(place, kernel, share, running)
    return _hami_given(place, kernel, running)


def _mps_given(place: Place, kernel: str, share: Share, running: Collection[str] | None) -> Given:
    [(gpu, milli)] = share.milli.items()
    request = {
        "do": "hold", "root": place.root, "gpu": gpu, "kernel": kernel, "percent": max(1, milli // 10),
        "memory": share.memory.get(gpu, 0), "shm": "own" if place.inside else "host",
        "running": None if running is None else sorted({*running, kernel}),
    }  # fmt: skip
    answer = _ask(place, kernel, _MPS, request)
    if not place.inside:
        return Given({"CUDA_MPS_PIPE_DIRECTORY": answer["pipe"], "CUDA_MPS_LOG_DIRECTORY": answer["log"]})
    binds = [Bound(answer["pipe"], PIPE), Bound(answer["log"], LOG)]
    if answer["shm"]:
        binds.append(Bound(answer["shm"], "/dev/shm"))
    env = {"CUDA_MPS_PIPE_DIRECTORY": PIPE, "CUDA_MPS_LOG_DIRECTORY": LOG}
    return Given(env, tuple(binds), host_ipc=not answer["shm"])


def _hami_given(place: Place, kernel: str, running: Collection[str] | None) -> Given:
    request = {
        "do": "hold", "root": place.hami_root, "kernel": kernel, "libraries": list(place.libraries),
        "running": None if running is None else sorted({*running, kernel}),
    }  # fmt: skip
    answer = _ask(place, kernel, _HAMI, request)
    if not place.inside:
        return Given(_hami_env(answer["library"], answer["cache"]))
    binds = (
        Bound(answer["library"], hami.LIBRARY, read_only=True),
        Bound(answer["cache"], hami.CACHE),
        Bound(answer["lock"], hami.LOCK),
    )
    return Given(_hami_env(hami.LIBRARY, hami.CACHE), binds)


def _hami_env(library: str, cache: str) -> dict[str, str]:
    return {"LD_PRELOAD": library, "CUDA_DEVICE_MEMORY_SHARED_CACHE": f"{cache}/vgpu.cache"}


def take(place: Place, kernel: str, running: Collection[str] | None = None) -> None:
    """Take away what a kernel had, whichever means it was. Raises ProviderError, ProviderUnavailable."""
    words = {"do": "drop", "kernel": kernel, "running": None if running is None else sorted(running)}
    for modules, root in ((_MPS, place.root), (_HAMI, place.hami_root)):
        _ask(place, kernel, modules, {**words, "root": root})


def revive(place: Place, running: Collection[str] | None = None) -> tuple[str, ...]:
    """Start MPS daemons again that died under their sharers; gives their GPUs. Raises ProviderError."""
    request = {"do": "revive", "root": place.root, "running": None if running is None else sorted(running)}
    return tuple(_ask(place, "", _MPS, request)["started"])


def _ask(place: Place, kernel: str, modules: tuple[str, ...], request: dict[str, Any]) -> Mapping[str, Any]:
    local = mps.serve if modules is _MPS else hami.serve
    answer = local(request) if place.machine is None else call(place.machine, modules, request)
    found = cast(Mapping[str, Any], answer)
    if "failed" not in found:
        return found
    why = f"node {place.node}: {found['failed']}"
    if kernel:
        raise KernelRefused(provider=place.provider, kernel=kernel, why=why)
    raise ProviderError(provider=place.provider, why=why)
