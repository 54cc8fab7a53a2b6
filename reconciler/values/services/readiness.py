"""How a replica answers its service's probes. Values only."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Readiness:
    """Of one replica, for as long as its kernels are these. `since`: seconds since the epoch from when it has
    been ready, or has not; `why`: why it is not, in words."""

    ready: bool
    since: float
    why: str = ""
    dead: str = ""
    """Why it is to be started again, in words: it failed its liveness probe."""
