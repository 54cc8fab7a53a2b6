"""A part of a kernel's GPU, enforced by what the node has for it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from providers.base import KernelSpec
from providers.docker.container.edits import BindMount, ContainerEdits
from providers.docker.engine.engine import Engine
from providers.docker.engine.errors import NAME
from providers.docker.labels import ID
from providers.gpu import shares
from providers.gpu.enforcement import EnforcementFacts, NodeMeans, TrialPart
from schemas.problems.errors.provider import ProviderError

CHECK_INTERVAL = 60.0
"""Seconds between looks at the MPS daemons of a node."""
_LIVES = frozenset({"created", "running", "restarting", "paused"})
_PRELOAD = "LD_PRELOAD"


def prepare(engine: Engine, spec: KernelSpec) -> ContainerEdits:
    """What the container needs so that the limits hold. Raises KernelRefused where nothing enforces them."""
    if spec.share is None or spec.share.means in ("none", "mig"):
        return ContainerEdits()
    given = shares.prepare(
        _share_host(engine), spec.id, spec.share, running=_live_kernels(engine.containers())
    )
    env = dict(given.env)
    if _PRELOAD in env and spec.env.get(_PRELOAD):
        env[_PRELOAD] = f"{env[_PRELOAD]}:{spec.env[_PRELOAD]}"
    binds = tuple(BindMount(each.source, each.target, each.read_only) for each in given.binds)
    return ContainerEdits(firm=env, binds=binds, ipc="host" if given.host_ipc else "")


def release(engine: Engine, kernel: str, mounts: Iterable[Mapping[str, Any]]) -> None:
    """What a kernel that ended had, by its container's mounts. Raises ProviderError."""
    if _has_share_mount(mounts):
        shares.release(_share_host(engine), kernel)


def release_uncreated(engine: Engine, spec: KernelSpec) -> None:
    """What a kernel that could not be made was given. Raises ProviderError."""
    if spec.share is not None and spec.share.means in ("mps", "hami"):
        shares.release(_share_host(engine), spec.id)


def try_part(engine: Engine, means: str, parts: Sequence[TrialPart]) -> EnforcementFacts:
    """See `shares.try_part`. Raises ProviderError."""
    return shares.try_part(_share_host(engine), means, parts)


class ShareKeeper:
    """Sees to it that MPS daemons live as long as their sharers, and knows what nodes can enforce."""

    def __init__(self) -> None:
        self._looked: dict[str, float] = {}
        self._means: dict[str, tuple[float, NodeMeans]] = {}

    def means(self, engine: Engine) -> NodeMeans:
        """What the node can enforce parts of GPUs with, asked once a minute. Raises ProviderError."""
        known = self._means.get(engine.node)
        if known is None or time.monotonic() - known[0] > CHECK_INTERVAL:
            known = self._means[engine.node] = (time.monotonic(), shares.available_means(_share_host(engine)))
        return known[1]

    def revive_daemons(self, engine: Engine, listed: Iterable[Mapping[str, Any]]) -> None:
        """Start those again that died, and clear away what dead kernels left; never raises for a node that
        refuses: whoever needs a daemon asks again."""
        listed = list(listed)
        if not any(_has_share_mount(each.get("Mounts") or ()) for each in listed):
            return
        if time.monotonic() - self._looked.get(engine.node, -CHECK_INTERVAL) < CHECK_INTERVAL:
            return
        self._looked[engine.node] = time.monotonic()
        with contextlib.suppress(ProviderError):
            shares.revive(_share_host(engine), _live_kernels(listed))


def _share_host(engine: Engine) -> shares.ShareHost:
    machine = None if engine.local else engine.machine
    libraries = (engine.options.hami,) if engine.options.hami else shares.LIBRARIES
    return shares.ShareHost(
        machine, NAME, engine.node, root=shares.ROOT, hami_root=shares.HAMI_ROOT, libraries=libraries
    )


def _live_kernels(listed: Iterable[Mapping[str, Any]]) -> set[str]:
    return {each["Labels"][ID] for each in listed if each["State"] in _LIVES}


def _has_share_mount(mounts: Iterable[Mapping[str, Any]]) -> bool:
    roots = (f"{shares.ROOT}/", f"{shares.HAMI_ROOT}/")
    return any(str(mount.get("Source", "")).startswith(roots) for mount in mounts)
