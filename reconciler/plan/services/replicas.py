"""How the replicas stand that there are. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from planner.model.plan_time import PlanTime
from reconciler.values.records import HOLDING
from reconciler.values.services.pattern import ReplicaRef
from reconciler.values.services.readiness import Readiness
from reconciler.values.services.status import ReplicaPhase
from reconciler.values.session_phase import ENDED
from reconciler.values.state import Existing
from reconciler.values.times import format_duration
from schemas.kinds.service import UpdateRules

FIRST_DELAY = 10.0
LONGEST_DELAY = 300.0
"""Seconds before a replica that has ended is started again: doubled each time, unless it ran for longer than
the longest."""
MOST_ENDS = 5
"""So often a replica of a new generation may end, or fail its liveness probe, before that is given up."""


@dataclass(frozen=True, slots=True)
class Replica:
    """`leaving`: why its node is to be left; `stuck`: why its generation does not get on; `again`: why it is
    to be started again. Empty where that is not so."""

    id: str
    generation: str
    number: int
    phase: ReplicaPhase
    why: str = ""
    leaving: str = ""
    stuck: str = ""
    again: str = ""

    @property
    def lost(self) -> bool:
        """Whether its node has not been reached for so long that another one takes its place."""
        return self.phase == "away" and bool(self.leaving)

    @property
    def unknown(self) -> bool:
        """Whether it runs, and nobody has asked it yet."""
        return self.phase == "starting" and not self.why


def judge_replica(
    ref: ReplicaRef,
    existing: Existing,
    readiness: Readiness | None,
    leaving: Mapping[str, str],
    rules: UpdateRules,
    time: PlanTime,
) -> Replica:
    """`leaving`: nodes that are to be left, and why."""
    found = Replica(existing.id, ref.generation, ref.number, "waiting", existing.reason)
    placement = existing.recorded.placement
    on = sorted({part.node for part in placement.kernels} & leaving.keys()) if placement is not None else []
    if on:
        found = replace(found, leaving=f"node {on[0]} is {leaving[on[0]]}")
    if existing.away:
        nodes = ", ".join(sorted(set(existing.away.values())))
        return replace(found, phase="away", why=f"{nodes} is not reached")
    if existing.phase in ENDED:
        return _ended(found, existing, time)
    if existing.phase not in HOLDING:
        return found
    if existing.phase != "RUNNING":
        return replace(found, phase="starting", why=existing.reason or existing.phase.lower())
    if existing.missing:  # What was asked of it before says nothing any more.
        return replace(found, phase="unready", why=existing.reason or "kernels of it are gone")
    if readiness is None:
        return replace(found, phase="starting", why="")
    if readiness.dead:
        found = replace(found, again=readiness.dead)
        if existing.recorded.generation >= MOST_ENDS:
            found = replace(
                found, stuck=f"was started {existing.recorded.generation} times: {readiness.dead}"
            )
    if not readiness.ready:
        return _unready(found, existing, readiness, rules, time)
    if rules.min_ready and not time.passed(readiness.since + rules.min_ready):
        why = f"ready, and counts after {format_duration(rules.min_ready)}"
        return replace(found, phase="starting", why=why)
    return replace(found, phase="ready", why="")


def _unready(
    found: Replica, existing: Existing, readiness: Readiness, rules: UpdateRules, time: PlanTime
) -> Replica:
    found = replace(found, phase="unready", why=readiness.why or "it is not ready")
    began = max(_past(existing.recorded.started_at, time) or 0.0, readiness.since)
    if time.passed(began + rules.deadline):
        text = f"not ready within {format_duration(rules.deadline)}: {found.why}"
        found = replace(found, stuck=text)
    return found


def _ended(found: Replica, existing: Existing, time: PlanTime) -> Replica:
    """Started again after a while, which grows with how often it has ended soon."""
    record = existing.recorded
    why = existing.reason or record.reason or "it ended"
    found = replace(found, phase="ended", why=why)
    ended = _past(existing.finished_at, time)
    ran = ended - record.started_at if ended is not None and record.started_at is not None else 0.0
    if ran <= LONGEST_DELAY and record.generation >= MOST_ENDS:
        found = replace(found, stuck=f"ended {record.generation} times: {why}")
    delay = min(LONGEST_DELAY, FIRST_DELAY * 2.0 ** min(record.generation - 1, 10))
    if ended is not None and ran <= LONGEST_DELAY and not time.passed(ended + delay):
        return found
    return replace(found, again=f"it ended: {why}")


def _past(moment: float | None, time: PlanTime) -> float | None:
    """None for one to come, too, which a clock has written down that was wrong: nobody waits for it."""
    return moment if moment is not None and time.passed(moment) else None
