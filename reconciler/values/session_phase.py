"""From a record and the kernels that were seen to the phase a session is really in. Pure.

A session follows its main container: when that ends, the session has ended. Where its document says so
(`cluster.endsWith: any-failure`, as batch sessions do when they say nothing), it ends with the first
container that fails for good, too. RUNNING waits for all its containers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from providers.base import Observed
    from reconciler.values.records import Phase, Recorded, Result

LIVE = frozenset({"creating", "starting", "running", "stopping"})
UNFINISHED = frozenset({"SCHEDULED", "PREPARING", "PULLING", "CREATING"})
"""Phases of a record whose kernels nobody has seen run: an apply may have died while it created them."""
_KILLED_FROM_OUTSIDE = frozenset({"signal 9", "signal 15"})
"""How a provider names ends that no program brings about by itself."""
ENDED: frozenset[str] = frozenset({"TERMINATED", "ERROR", "CANCELLED"})


@dataclass(frozen=True, slots=True)
class DerivedPhase:
    """What the kernels say. `missing`: ids to be made (again), because they are gone or were lost and the
    session restarts."""

    phase: Phase
    result: Result = ""
    exit_codes: Mapping[str, int] = field(default_factory=dict)
    reason: str = ""
    missing: tuple[str, ...] = ()


def derive_phase(
    record: Recorded, kernels: Sequence[Observed], *, complete: bool, away: Mapping[str, str] | None = None
) -> DerivedPhase:
    """The phase of one session; with an incomplete observation, a kernel that was not seen changes nothing.

    `away`: kernels on nodes that could not be asked, and those nodes.
    """
    kept = DerivedPhase(record.phase, record.result, record.exit_codes, record.reason)
    if not record.kernels or record.phase in ("", "PENDING", "TERMINATING"):
        return kept
    seen = {kernel.id: kernel for kernel in kernels}
    main = seen.get(record.kernels[0])
    if record.phase in ENDED and (main is None or main.state not in LIVE):
        return kept
    codes = {k.labels.kernel: k.exit_code for k in kernels if k.state == "exited" and k.exit_code is not None}
    rule = _restart_rule(record)
    batch = is_batch(record)
    first = ending_kernel(record, kernels)
    if first is not None:
        return _ended_phase(record, first, codes)
    if away:
        nodes = ", ".join(sorted(set(away.values())))
        return DerivedPhase(record.phase, "", {**record.exit_codes, **codes}, f"no contact with {nodes}")
    gone = tuple(kernel for kernel in record.kernels if kernel not in seen)
    if gone and not complete:
        return kept
    lost = tuple(
        k
        for at, k in enumerate(record.kernels)
        if k in seen and _restarts(seen[k], rule, batch, main=at == 0)
    )
    return _live_phase(record, seen, codes, gone, lost)


def _restart_rule(record: Recorded) -> tuple[str, int]:
    """Policy, and most restarts (0: no bound)."""
    spec = record.document.get("spec")
    restart = spec.get("restart") if isinstance(spec, Mapping) else None
    policy, most = (
        (restart.get("policy"), restart.get("max")) if isinstance(restart, Mapping) else (None, None)
    )
    return str(policy or "never"), most if isinstance(most, int) else 0


def is_batch(record: Recorded) -> bool:
    """Whether the session ends by itself with success or failure."""
    spec = record.document.get("spec")
    return isinstance(spec, Mapping) and spec.get("type") == "batch"


def ending_kernel(record: Recorded, kernels: Sequence[Observed]) -> Observed | None:
    """The container whose end is the session's: of several, the one that ended first."""
    seen = {kernel.id: kernel for kernel in kernels}
    rule, batch = _restart_rule(record), is_batch(record)
    any_failure = _ends_with(record) == "any-failure"
    ended = [
        seen[k]
        for at, k in enumerate(record.kernels)
        if k in seen
        and seen[k].state not in LIVE
        and not _restarts(seen[k], rule, batch, main=at == 0)
        and (at == 0 or (any_failure and not _succeeded(seen[k])))
    ]
    moments = [(each.finished.timestamp() if each.finished else float("inf")) for each in ended]
    return ended[moments.index(min(moments))] if ended else None


def _ends_with(record: Recorded) -> str:
    spec = record.document.get("spec")
    layout = spec.get("cluster") if isinstance(spec, Mapping) else None
    said = layout.get("endsWith") if isinstance(layout, Mapping) else None
    return str(said or ("any-failure" if is_batch(record) else "main"))


def _succeeded(kernel: Observed) -> bool:
    return kernel.state == "exited" and kernel.exit_code == 0 and kernel.reason in ("", "exit")


def _restarts(kernel: Observed, rule: tuple[str, int], batch: bool, *, main: bool) -> bool:
    """Whether an end was nobody's decision, so that the kernel is made again.

    A supervisor restarts what it watches by the session's policy; this is for what it could not: a reboot
    or a killed supervisor, a kill from outside, and what somebody stopped under `always`. A batch session is
    run again only where its policy says so: half of its work may be done. Whose restarts are used up is
    given no more. Only an apply stops containers: where it stopped some, and died before it came to the first
    one, what it was about to end goes on as a whole, or the next plan ends it.
    """
    policy, most = rule
    if kernel.state == "lost":
        return not batch or policy != "never"
    if kernel.state != "exited":
        return False
    if kernel.reason in _KILLED_FROM_OUTSIDE:
        return not batch and not (policy != "never" and 0 < most <= kernel.restarts)
    return kernel.reason == "stopped" and (policy == "always" or not (main or batch))


def _ended_phase(record: Recorded, cause: Observed, codes: Mapping[str, int]) -> DerivedPhase:
    how = _end_text(cause)
    good = _succeeded(cause)
    if is_batch(record):
        result: Literal["success", "failure"] = "success" if good else "failure"
        return DerivedPhase("TERMINATED", result, codes, how)
    if good or cause.reason in ("timeout", "stopped"):
        return DerivedPhase("TERMINATED", "", codes, how)
    return DerivedPhase("ERROR", "", codes, how)


def _end_text(kernel: Observed) -> str:
    name = kernel.labels.kernel
    if kernel.state == "lost":
        return f"{name} was lost" + (f": {kernel.reason}" if kernel.reason else "")
    code = f"{name} exited with {kernel.exit_code}" if kernel.exit_code is not None else f"{name} ended"
    why = f" ({kernel.reason})" if kernel.reason not in ("", "exit") else ""
    return code + why + (f" after {kernel.restarts} restarts" if kernel.restarts else "")


def _live_phase(
    record: Recorded,
    seen: Mapping[str, Observed],
    codes: Mapping[str, int],
    gone: tuple[str, ...],
    lost: tuple[str, ...],
) -> DerivedPhase:
    unfinished = record.phase in UNFINISHED
    # Whoever was creating it may be dead: creating it again finds it, or starts it.
    begun = tuple(k for k in record.kernels if unfinished and k in seen and seen[k].state == "creating")
    missing = tuple(kernel for kernel in record.kernels if kernel in gone + lost + begun)
    if missing:
        was = record.phase if unfinished else "RUNNING"
        reasons = [f"{_kernel_name(record, k)} is gone" for k in gone] + [_end_text(seen[k]) for k in lost]
        reasons += [_wait_text(_kernel_name(record, k), seen[k]) for k in begun]
        reason = "; ".join(reasons)
        return DerivedPhase(was, "", codes, reason, missing)
    unstarted = {k: kernel for k, kernel in seen.items() if kernel.state in ("creating", "starting")}
    if unstarted:
        waits = [_wait_text(_kernel_name(record, k), each) for k, each in unstarted.items() if each.reason]
        return DerivedPhase("CREATING", "", codes, "; ".join(waits))
    ended = [_end_text(kernel) for kernel in seen.values() if kernel.state not in LIVE]
    return DerivedPhase("RUNNING", "", codes, "; ".join(ended))


def _wait_text(name: str, kernel: Observed) -> str:
    """Of a kernel that is being created: its provider may say what it waits for."""
    return f"{name} was not seen to start" + (f": {kernel.reason}" if kernel.reason else "")


def _kernel_name(record: Recorded, kernel_id: str) -> str:
    """The kernel's name in the session: ids and placed kernels stand in the same order."""
    if record.placement and len(record.placement.kernels) == len(record.kernels):
        return record.placement.kernels[record.kernels.index(kernel_id)].kernel
    return kernel_id


def with_times(record: Recorded, old: Recorded | None, now: float) -> Recorded:
    """The record with the times that it does not say itself, `now` being when it is written."""
    same = old is not None and old.generation == record.generation
    started, finished = record.started_at, record.finished_at
    if started is None and old is not None and same:
        started = old.started_at
    if started is None and record.phase == "RUNNING":
        started = now
    if finished is None and record.phase in ENDED:
        finished = old.finished_at if old is not None and same and old.phase in ENDED else now
    if finished is None and record.phase == "TERMINATING" and old is not None and same:
        finished = old.finished_at  # It may have ended long before it is taken away.
    return replace(record, started_at=started, finished_at=finished)
