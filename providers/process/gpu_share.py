"""A part of a kernel's GPU on this machine, enforced by MPS or HAMi-core."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from providers.gpu import shares
from providers.gpu.node import hami
from providers.process.sandbox.bubblewrap import LINKS, SYSTEM
from schemas.problems.errors.provider import ProviderError

if TYPE_CHECKING:
    from providers.base import KernelSpec
    from providers.gpu.enforcement import EnforcementFacts, NodeMeans, TrialPart
    from providers.process.supervision.records import KernelRoot

CHECK_INTERVAL = 60.0
"""Seconds between looks at the MPS daemons."""
_PRELOAD = "LD_PRELOAD"
_LIBRARY = "/run/libvgpu.so"
"""Where a kernel in a sandbox finds a library that is in none of the system's folders."""


@dataclass(frozen=True, slots=True)
class ShareLimits:
    """`env` wins over the spec's own; `binds`: source, target and whether it is read-only, for a sandbox."""

    env: Mapping[str, str] = field(default_factory=dict)
    binds: tuple[shares.BindMount, ...] = ()


class GpuSharing:
    """What this provider's kernels share, kept below its root. `hami`: where libvgpu.so is, when said."""

    def __init__(self, root: KernelRoot, *, hami: str = "") -> None:
        self._root = root
        self._libraries = (hami,) if hami else shares.LIBRARIES
        self._looked = -CHECK_INTERVAL

    def prepare(self, spec: KernelSpec, *, sandboxed: bool) -> ShareLimits:
        """Raises KernelRefused where nothing enforces its limits."""
        if spec.share is None or spec.share.means in ("none", "mig"):
            return ShareLimits()
        given = shares.prepare(
            self._share_host(sandboxed=sandboxed), spec.id, spec.share, running=self._live_kernels()
        )
        env, binds = dict(given.env), list(given.binds)
        for at, bound in enumerate(binds):
            if bound.target == hami.LIBRARY:
                binds[at] = bound = _shown_library(bound)
                env[_PRELOAD] = bound.target
        if _PRELOAD in env and spec.env.get(_PRELOAD):
            env[_PRELOAD] = f"{env[_PRELOAD]}:{spec.env[_PRELOAD]}"
        return ShareLimits(env, tuple(each for each in binds if each.source != each.target))

    def release(self, spec: KernelSpec) -> None:
        """What a kernel that ended had. Raises ProviderError."""
        if spec.share is not None and spec.share.means in ("mps", "hami"):
            shares.release(self._share_host(sandboxed=True), spec.id)

    def revive_daemons(self, living: Collection[str]) -> None:
        """Start MPS daemons of living kernels again that died. Whoever needs one that does not start asks
        for it and is told why."""
        if time.monotonic() - self._looked < CHECK_INTERVAL:
            return
        self._looked = time.monotonic()
        with contextlib.suppress(ProviderError):
            shares.revive(self._share_host(sandboxed=True), living)

    def means(self) -> NodeMeans:
        """What can enforce parts of GPUs here."""
        return shares.available_means(self._share_host(sandboxed=True))

    def try_part(self, means: str, parts: Sequence[TrialPart], *, sandboxed: bool) -> EnforcementFacts:
        """See `shares.try_part`."""
        return shares.try_part(self._share_host(sandboxed=sandboxed), means, parts)

    def _share_host(self, *, sandboxed: bool) -> shares.ShareHost:
        return shares.ShareHost(
            None, "process", "this machine", inside=sandboxed, root=str(self._root.mps),
            hami_root=str(self._root.path / "hami"), libraries=self._libraries,
        )  # fmt: skip

    def _live_kernels(self) -> set[str]:
        found = set()
        for kernel_id in self._root.ids():
            try:
                record = self._root.read(kernel_id)
            except ValueError:
                found.add(kernel_id)
            else:
                if record is not None and record.alive:
                    found.add(kernel_id)
        return found


def _shown_library(bound: shares.BindMount) -> shares.BindMount:
    """A sandbox shows the system's folders, and nothing can be put into them."""
    seen = any(PurePosixPath(bound.source).is_relative_to(top) for top in (*SYSTEM, *LINKS))
    return shares.BindMount(bound.source, bound.source if seen else _LIBRARY, read_only=True)
