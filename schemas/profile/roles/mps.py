"""The section of the role `mps`: GPUs shared by processes."""

from __future__ import annotations

from typing import Literal

from schemas.values.envelope import Count, Model


class Mps(Model):
    """GPUs shared by processes, through NVIDIA's multi-process service: one control daemon per GPU.

    A daemon is started with the first session that shares its GPU and stopped with the last; the role sees to
    it that this works, and may keep daemons up all the time.
    """

    gpus: tuple[Count, ...] = ()
    """Indexes of the GPUs that it is for; all when left out."""
    daemons: Literal["on-demand", "standing"] = "on-demand"
    """`standing`: their daemons are up from boot on, so that no session waits for one."""
    compute_mode: Literal["default", "exclusive-process"] = "default"
    """Set at every boot. `exclusive-process`: a GPU can be used through its daemon only."""
