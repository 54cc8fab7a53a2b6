"""What a kernel needs so that the limits on its parts of GPUs hold, put on its node and taken away again."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from providers.gpu.gpu_share import GpuShare
from providers.gpu.node import cuda_client, enforcement_check, hami, mps, probe
from providers.machines.base import Machine
from providers.machines.remote_modules import call_remote
from schemas.problems.errors.kernel import KernelRefused
from schemas.problems.errors.provider import ProviderError

if TYPE_CHECKING:  # Kernels are kept also where there is no pydantic.
    from providers.gpu.enforcement import EnforcementFacts, NodeMeans, TrialPart

ROOT = "/run/bai/mps"
HAMI_ROOT = "/run/bai/hami"
LIBRARIES = ("/usr/local/vgpu/libvgpu.so", "/usr/local/lib/libvgpu.so", "/usr/lib/libvgpu.so")
"""Where HAMi-core is looked for when no option says where."""
PIPE, LOG = "/run/nvidia-mps/pipe", "/run/nvidia-mps/log"
"""Where a container finds its MPS daemon."""
_PACKAGE = "providers.gpu.node"
_MPS = (f"{_PACKAGE}.daemon", f"{_PACKAGE}.mps")
_HAMI = (f"{_PACKAGE}.hami",)
_PROBE = (f"{_PACKAGE}.daemon", f"{_PACKAGE}.probe")
_CHECK = (*_MPS, *_HAMI, *(f"{_PACKAGE}.{name}" for name in ("hami_lock", "probe", "enforcement_check")))
CHECK_SECONDS = 240.0
"""For one check of a node: two processes and an MPS daemon that take all the time they are given."""
NOBODY = 65534
"""Who takes a part to try it, where root can be somebody else."""


@dataclass(frozen=True, slots=True)
class BindMount:
    """A folder or file of the node, as the kernel sees it."""

    source: str
    target: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class SharePreparation:
    """What a kernel gets beyond its spec. `host_ipc`: it must share the machine's own shared memory."""

    env: Mapping[str, str] = field(default_factory=dict)
    binds: tuple[BindMount, ...] = ()
    host_ipc: bool = False


@dataclass(frozen=True, slots=True)
class ShareHost:
    """Where kernels run: the machine (None: this one), what they see of it, and where its things are."""

    machine: Machine | None
    provider: str
    node: str
    inside: bool = True
    """A kernel has a view of files of its own; False: it sees the machine's."""
    root: str = ROOT
    hami_root: str = HAMI_ROOT
    libraries: Sequence[str] = LIBRARIES


def share_problem(share: GpuShare | None) -> str:
    """Why these parts cannot be had together; empty when they can."""
    if share is None or share.means != "mps" or len(share.milli) < 2:
        return ""
    return (
        "a kernel is a client of one MPS daemon, and each GPU has its own: it can have a part of one GPU only"
    )


def available_means(host: ShareHost) -> NodeMeans:
    """What the node can enforce parts with, by looking. Raises ProviderError."""
    from providers.gpu.enforcement import parse_means

    request = {"libraries": list(host.libraries)}
    found = probe.serve(request) if host.machine is None else call_remote(host.machine, _PROBE, request)
    return parse_means(host.node, found)


def try_part(host: ShareHost, means: str, parts: Sequence[TrialPart]) -> EnforcementFacts:
    """Take the first of these parts that can be had without disturbing anybody, as a session would, and give
    it back. Raises ProviderError, MachineRefused."""
    from providers.gpu.enforcement import parse_facts

    request = {
        "means": means, "client": Path(cuda_client.__file__).read_text(encoding="utf-8"), "user": NOBODY,
        "candidates": [_candidate(part) for part in parts], "shm": "own" if host.inside else "host",
        "root": host.root, "hami_root": host.hami_root, "libraries": list(host.libraries),
    }  # fmt: skip
    if host.machine is None:
        return parse_facts(host.node, enforcement_check.serve(request))
    return parse_facts(host.node, call_remote(host.machine, _CHECK, request, timeout=CHECK_SECONDS))


def _candidate(part: TrialPart) -> dict[str, Any]:
    return {
        "gpu": part.gpu, "env": dict(part.env), "percent": max(1, part.milli // 10), "memory": part.memory,
        "within": part.within, "beyond": part.beyond, "shared": part.shared,
    }  # fmt: skip


def prepare(
    host: ShareHost, kernel: str, share: GpuShare | None, running: Collection[str] | None = None
) -> SharePreparation:
    """Everything that the kernel's parts of GPUs need. `running`: the kernels that live on the node, so that
    what the others left behind is cleared away. Raises KernelRefused, ProviderUnavailable."""
    if share is None or share.means in ("none", "mig"):
        return SharePreparation()
    if why := share_problem(share):
        raise KernelRefused(provider=host.provider, kernel=kernel, why=why)
    if share.means == "mps":
        return _prepare_mps(host, kernel, share, running)
    return _prepare_hami(host, kernel, running)


def _prepare_mps(
    host: ShareHost, kernel: str, share: GpuShare, running: Collection[str] | None
) -> SharePreparation:
    [(gpu, milli)] = share.milli.items()
    request = {
        "do": "hold", "root": host.root, "gpu": gpu, "kernel": kernel, "percent": max(1, milli // 10),
        "memory": share.memory.get(gpu, 0), "shm": "own" if host.inside else "host",
        "running": None if running is None else sorted({*running, kernel}),
    }  # fmt: skip
    answer = _ask_node(host, kernel, _MPS, request)
    if not host.inside:
        return SharePreparation(
            {"CUDA_MPS_PIPE_DIRECTORY": answer["pipe"], "CUDA_MPS_LOG_DIRECTORY": answer["log"]}
        )
    binds = [BindMount(answer["pipe"], PIPE), BindMount(answer["log"], LOG)]
    if answer["shm"]:
        binds.append(BindMount(answer["shm"], "/dev/shm"))
    env = {"CUDA_MPS_PIPE_DIRECTORY": PIPE, "CUDA_MPS_LOG_DIRECTORY": LOG}
    return SharePreparation(env, tuple(binds), host_ipc=not answer["shm"])


def _prepare_hami(host: ShareHost, kernel: str, running: Collection[str] | None) -> SharePreparation:
    request = {
        "do": "hold", "root": host.hami_root, "kernel": kernel, "libraries": list(host.libraries),
        "running": None if running is None else sorted({*running, kernel}),
    }  # fmt: skip
    answer = _ask_node(host, kernel, _HAMI, request)
    if not host.inside:
        return SharePreparation(hami.variables(answer["library"], answer["cache"]))
    binds = (
        BindMount(answer["library"], hami.LIBRARY, read_only=True),
        BindMount(answer["cache"], hami.CACHE),
        BindMount(answer["lock"], hami.LOCK),
    )
    return SharePreparation(hami.variables(hami.LIBRARY, hami.CACHE), binds)


def release(host: ShareHost, kernel: str, running: Collection[str] | None = None) -> None:
    """Take away what a kernel had, whichever means it was. Raises ProviderError, ProviderUnavailable."""
    words = {"do": "drop", "kernel": kernel, "running": None if running is None else sorted(running)}
    for modules, root in ((_MPS, host.root), (_HAMI, host.hami_root)):
        _ask_node(host, kernel, modules, {**words, "root": root})


def revive(host: ShareHost, running: Collection[str] | None = None) -> tuple[str, ...]:
    """Start MPS daemons again that died under their sharers; gives their GPUs. Raises ProviderError."""
    request = {"do": "revive", "root": host.root, "running": None if running is None else sorted(running)}
    return tuple(_ask_node(host, "", _MPS, request)["started"])


def _ask_node(
    host: ShareHost, kernel: str, modules: tuple[str, ...], request: dict[str, Any]
) -> Mapping[str, Any]:
    local = mps.serve if modules is _MPS else hami.serve
    answer = local(request) if host.machine is None else call_remote(host.machine, modules, request)
    found = cast(Mapping[str, Any], answer)
    if "failed" not in found:
        return found
    why = f"node {host.node}: {found['failed']}"
    if kernel:
        raise KernelRefused(provider=host.provider, kernel=kernel, why=why)
    raise ProviderError(provider=host.provider, why=why)
