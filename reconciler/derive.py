"""From a record and the kernels that were seen to the phase a session is really in. Pure.

A session follows its main container: when that ends, the session has ended. RUNNING waits for all its
containers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from providers.base import Observed
from reconciler.records import Phase, Recorded, Result

LIVE = frozenset({"creating", "running", "stopping"})
UNFINISHED = frozenset({"SCHEDULED", "PREPARING", "CREATING"})
"""Phases of a record whose creation no apply has seen to its end."""
_FROM_OUTSIDE = frozenset({"signal 9", "signal 15"})
"""How a provider names ends that no program brings about by itself."""
ENDED: frozenset[str] = frozenset({"TERMINATED", "ERROR", "CANCELLED"})


@dataclass(frozen=True, slots=True)
class Derived:
    """What the kernels say. `missing`: ids to be made (again), because they are gone or were lost and the
    session restarts."""

    phase: Phase
    result: Result = ""
    exit_codes: Mapping[str, int] = field(default_factory=dict)
    reason: str = ""
    missing: tuple[str, ...] = ()


def derive(record: Recorded, kernels: Sequence[Observed], *, complete: bool) -> Derived:
    """The phase of one session; with an incomplete observation, a kernel that was not seen changes
    nothing."""
    kept = Derived(record.phase, record.result, record.exit_codes, record.reason)
    if not record.kernels or record.phase in ("", "PENDING", "TERMINATING"):
        return kept
    seen = {kernel.id: kernel for kernel in kernels}
    main = seen.get(record.kernels[0])
    if record.phase in ENDED and (main is None or main.state not in LIVE):
        return kept
    codes = {k.labels.kernel: k.exit_code for k in kernels if k.state == "exited" and k.exit_code is not None}
    policy = _restart_policy(record)
    batch = is_batch(record)
    if main is not None and main.state not in LIVE and not _revives(main, policy, batch):
        return _ended(record, main, codes)
    gone = tuple(kernel for kernel in record.kernels if kernel not in seen)
    if gone and not complete:
        return kept
    lost = tuple(k for k in record.kernels if k in seen and _revives(seen[k], policy, batch))
    return _alive(record, seen, codes, gone, lost)


def main_kernel(record: Recorded) -> str:
    """Name of the kernel that the session follows."""
    return record.placement.kernels[0].kernel if record.placement and record.placement.kernels else "main1"


def _restart_policy(record: Recorded) -> str:
    spec = record.document.get("spec")
    restart = spec.get("restart") if isinstance(spec, Mapping) else None
    policy = restart.get("policy") if isinstance(restart, Mapping) else None
    return str(policy or "never")


def is_batch(record: Recorded) -> bool:
    """Whether the session ends by itself with success or failure."""
    spec = record.document.get("spec")
    return isinstance(spec, Mapping) and spec.get("type") == "batch"


def _revives(kernel: Observed, policy: str, batch: bool) -> bool:
    """Whether an end was nobody's decision, so that the kernel is made again.

    A supervisor restarts what it watches by the session's policy; this is for what it could not: a reboot
    or a killed supervisor, a kill from outside, and what somebody stopped under `always`. A batch session is
    run again only where its policy says so, because half of its work may be done.
    """
    if kernel.state == "lost":
        return not batch or policy != "never"
    if kernel.state != "exited":
        return False
    if kernel.reason in _FROM_OUTSIDE:
        return not batch
    return kernel.reason == "stopped" and policy == "always"


def _ended(record: Recorded, main: Observed, codes: Mapping[str, int]) -> Derived:
    how = _how(main)
    good = main.state == "exited" and main.exit_code == 0 and main.reason in ("", "exit")
    if is_batch(record):
        result: Literal["success", "failure"] = "success" if good else "failure"
        return Derived("TERMINATED", result, codes, how)
    if good or main.reason in ("timeout", "stopped"):
        return Derived("TERMINATED", "", codes, how)
    return Derived("ERROR", "", codes, how)


def _how(kernel: Observed) -> str:
    name = kernel.labels.kernel
    if kernel.state == "lost":
        return f"{name} was lost" + (f": {kernel.reason}" if kernel.reason else "")
    code = f"{name} exited with {kernel.exit_code}" if kernel.exit_code is not None else f"{name} ended"
    why = f" ({kernel.reason})" if kernel.reason not in ("", "exit") else ""
    return code + why + (f" after {kernel.restarts} restarts" if kernel.restarts else "")


def _alive(
    record: Recorded,
    seen: Mapping[str, Observed],
    codes: Mapping[str, int],
    gone: tuple[str, ...],
    lost: tuple[str, ...],
) -> Derived:
    unfinished = record.phase in UNFINISHED
    # Whoever was creating it may be dead: creating it again finds it, or starts it.
    begun = tuple(k for k in record.kernels if unfinished and k in seen and seen[k].state == "creating")
    missing = tuple(kernel for kernel in record.kernels if kernel in gone + lost + begun)
    if missing:
        was = record.phase if unfinished else "RUNNING"
        reasons = [f"{_name(record, k)} is gone" for k in gone] + [_how(seen[k]) for k in lost]
        reasons += [f"{_name(record, k)} was not seen to start" for k in begun]
        reason = "; ".join(reasons)
        return Derived(was, "", codes, reason, missing)
    if any(kernel.state == "creating" for kernel in seen.values()):
        return Derived("CREATING", "", codes)
    ended = [_how(kernel) for kernel in seen.values() if kernel.state not in LIVE]
    return Derived("RUNNING", "", codes, "; ".join(ended))


def _name(record: Recorded, kernel_id: str) -> str:
    """The kernel's name in the session: ids and placed kernels stand in the same order."""
    if record.placement and len(record.placement.kernels) == len(record.kernels):
        return record.placement.kernels[record.kernels.index(kernel_id)].kernel
    return kernel_id
