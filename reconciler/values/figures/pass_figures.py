"""What a pass says of a cluster in figures: the same for Prometheus, for the store and for pages. Pure."""

from __future__ import annotations

from collections import Counter as Count
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from reconciler.values.figures.used import used_by_group
from schemas.values.resource_ref import ref_of

if TYPE_CHECKING:
    from planner.model.types import Placement
    from reconciler.values.plan import Plan
    from reconciler.values.state import Actual, Existing


@dataclass(frozen=True, slots=True)
class FigureKind:
    """What a figure is, and what tells those of one name apart; `group` comes first where it is there."""

    help: str
    labels: tuple[str, ...] = ()

    @property
    def by_group(self) -> bool:
        """Whether each resource group has its own."""
        return self.labels[:1] == ("group",)


KINDS: Mapping[str, FigureKind] = {
    "bai_sessions": FigureKind("Sessions by phase.", ("phase",)),
    "bai_drifts": FigureKind("Things found to be other than recorded."),
    "bai_nodes_unreached": FigureKind("Nodes that do not answer."),
    "bai_sessions_running": FigureKind("Sessions that hold a place in a group.", ("group",)),
    "bai_queue_length": FigureKind("Sessions that wait in the queue.", ("group",)),
    "bai_queue_reasons": FigureKind("Reasons for which sessions wait.", ("group", "reason")),
    "bai_queue_oldest_seconds": FigureKind(
        "How long who waits longest has waited.", ("group", "reason")
    ),
    "bai_capacity": FigureKind("What a group has, in smallest units.", ("group", "slot")),
    "bai_allocated": FigureKind("What of it sessions hold.", ("group", "slot")),
    "bai_held": FigureKind("What of that is held for replicas of services to come.", ("group", "slot")),
    "bai_fits": FigureKind("How many more sessions of a size fit: fragmentation.", ("group", "size")),
    "bai_measured": FigureKind(
        "What sessions hold whose use was measured, in thousandths of cores and GPUs.", ("group", "slot")
    ),
    "bai_used": FigureKind("What of it was used, in thousandths.", ("group", "slot")),
    "bai_sessions_by_numa_nodes": FigureKind("Most NUMA nodes of a container.", ("numaNodes",)),
    "bai_sessions_by_nodes": FigureKind("Nodes of a session.", ("nodes",)),
}  # fmt: skip
"""By name, in the order in which they are told."""


class Figure(NamedTuple):
    """`labels` as its kind names them."""

    name: str
    labels: tuple[str, ...]
    value: float


def pass_figures(plan: Plan, actual: Actual, now: float) -> Iterator[Figure]:
    """Of the last pass, which saw `actual`."""
    existing = actual.existing
    phases = Count(each.phase for key, each in existing.items() if ref_of(key).kind == "Session")
    for phase, count in sorted(phases.items()):
        yield Figure("bai_sessions", (phase,), float(count))
    yield Figure("bai_drifts", (), float(len(plan.drifts)))
    yield Figure("bai_nodes_unreached", (), float(len(plan.unreached)))
    yield from _queue_figures(plan, existing, now)
    yield from _group_figures(plan)
    for (group, slot), (held, used) in sorted(used_by_group(actual, now).items()):
        yield Figure("bai_measured", (group, slot), held)
        yield Figure("bai_used", (group, slot), used)
    yield from _locality_figures(plan, existing)


def _queue_figures(plan: Plan, existing: Mapping[str, Existing], now: float) -> Iterator[Figure]:
    groups = Count(wait.group for wait in plan.waits if not wait.is_held)
    reasons = Count((wait.group, reason.code) for wait in plan.waits for reason in wait.reasons)
    for group in sorted({*groups, *(use.group for use in plan.groups)}):
        yield Figure("bai_queue_length", (group,), float(groups[group]))
    for key, count in sorted(reasons.items()):
        yield Figure("bai_queue_reasons", key, float(count))
    oldest: dict[tuple[str, str], float] = {}
    for wait in plan.waits:
        there = existing.get(wait.session)
        since = there.recorded.enqueued_at if there else None
        for reason in wait.reasons:
            key = (wait.group, reason.code)
            oldest[key] = max(oldest.get(key, 0.0), now - since if since is not None else 0.0)
    for key, age in sorted(oldest.items()):
        yield Figure("bai_queue_oldest_seconds", key, age)


def _group_figures(plan: Plan) -> Iterator[Figure]:
    held = _held_by_group(plan)
    for use in plan.groups:
        for slot, amount in sorted(held.get(use.group, {}).items()):
            yield Figure("bai_held", (use.group, slot), float(amount))
        for slot, capacity in sorted(use.capacity.items()):
            yield Figure("bai_capacity", (use.group, slot), float(capacity))
            yield Figure("bai_allocated", (use.group, slot), float(use.after.get(slot, 0)))
        for size, count in sorted(use.fits_after.items()):
            yield Figure("bai_fits", (use.group, size), float(count))


def _held_by_group(plan: Plan) -> Mapping[str, Count[str]]:
    """Smallest units by slot; nothing of groups in which nothing is to be held."""
    found: dict[str, Count[str]] = {}
    for place in (place for service in plan.services for place in service.held):
        here = found.setdefault(place.placement.group, Count())
        for kernel in place.placement.kernels:
            here["cpu"] += kernel.cpu_milli
            here["mem"] += kernel.memory
            for grant in kernel.devices:
                here[grant.slot] += grant.milli if grant.slot.endswith(".shares") else 1
    return found


def _locality_figures(plan: Plan, existing: Mapping[str, Existing]) -> Iterator[Figure]:
    """How many sessions are in which group, over how many NUMA nodes their containers are spread, and they
    over nodes."""
    placed = {
        key: each.recorded.placement
        for key, each in existing.items()
        if each.recorded.placement is not None and each.kernels
    }
    for action in plan.actions:
        after = action.session_after
        if after is not None and after.placement is not None and after.kernels:
            placed[action.id] = after.placement
    found = [placement for placement in placed.values() if placement is not None]
    groups = Count(placement.group for placement in found)
    for group in sorted({*groups, *(use.group for use in plan.groups)}):
        yield Figure("bai_sessions_running", (group,), float(groups[group]))
    for nodes, count in sorted(Count(map(_numa_nodes, found)).items()):
        yield Figure("bai_sessions_by_numa_nodes", (str(nodes),), float(count))
    for nodes, count in sorted(Count(map(_nodes, found)).items()):
        yield Figure("bai_sessions_by_nodes", (str(nodes),), float(count))


def _numa_nodes(placement: Placement) -> int:
    return max((len(kernel.memory_nodes) for kernel in placement.kernels), default=0)


def _nodes(placement: Placement) -> int:
    return len({kernel.node for kernel in placement.kernels})
