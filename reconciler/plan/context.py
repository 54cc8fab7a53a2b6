"""What one plan is made for, and what each session needs in it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from planner.model.types import NodeInfo, Outcome, Placement, Snapshot
from reconciler.plan.decide.lifecycle import lived
from reconciler.plan.decide.node_loss import strangers
from reconciler.plan.decide.session_needs import Decision, decide
from reconciler.plan.network.session_networks import Connected
from reconciler.plan.nodes.rollout import Rolling, leaving
from reconciler.values.records import HOLDING
from reconciler.values.session_phase import ENDED, LIVE
from reconciler.values.state import Actual, Desired, Existing

Place = Callable[[Snapshot], Outcome]


@dataclass(frozen=True, slots=True)
class Case:
    """`scope`: identities that may change, or None for all; `destroy`: nothing is desired; `anew`: sessions
    to be started again though nothing changed."""

    desired: Desired
    actual: Actual
    now: float
    nodes: Mapping[str, NodeInfo]
    place: Place
    scope: frozenset[str] | None = None
    destroy: bool = False
    anew: frozenset[str] = frozenset()
    without: frozenset[str] = frozenset()
    """Left as they are, whatever is said about them."""
    connected: Mapping[str, Connected] = field(default_factory=dict)
    """Session → how its kernels are connected where they are to be; filled in once all have a place."""
    rolling: Rolling | None = None
    """What becomes of the nodes that differ from their profiles."""

    def touches(self, identity: str) -> bool:
        """Whether this plan may change a resource; none, where not everything could be seen."""
        if identity in self.without:
            return False
        return self.actual.complete and (self.scope is None or identity in self.scope)


def decisions(case: Case) -> dict[str, Decision]:
    """One decision per session that is desired or exists; sessions out of scope are left as they are."""
    nodes = {node.name: node for node in case.desired.nodes}
    unknown = bool(strangers(case.actual, case.desired))
    found: dict[str, Decision] = {}
    desired = () if case.destroy else tuple(case.desired.sessions())
    for identity in sorted({*desired, *(i for i in case.actual.existing if i.startswith("Session/"))}):
        existing = case.actual.existing.get(identity)
        if existing is None and unknown:
            continue  # It may be on one of these nodes, and a record would say that it is not.
        if case.touches(identity):
            if case.destroy:
                found[identity] = Decision(identity, "delete", None, existing, why="everything is destroyed")
            else:
                made = decide(
                    identity, case.desired, existing, case.actual.capabilities, nodes, leaving(case.rolling)
                )
                found[identity] = lived(made, case.desired, case.actual, case.now)
        elif existing is not None:
            found[identity] = _untouched(existing)
    return found


def _untouched(existing: Existing) -> Decision:
    record = existing.recorded
    holds = existing.phase in HOLDING or any(kernel.state in LIVE for kernel in existing.kernels)
    return Decision(
        existing.id,
        "keep" if holds else "ended",
        None,
        existing,
        placement=record.placement if holds else None,
        generation=record.generation,
    )


def holding(found: Mapping[str, Decision], kept: Collection[str] = ()) -> list[tuple[Existing, Placement]]:
    """Sessions that keep what they hold while others are placed, `kept` ones among them."""
    keeping = []
    for decision in found.values():
        existing = decision.existing
        if existing is None:
            continue
        placement = existing.recorded.placement if decision.id in kept else decision.placement
        if placement is not None and (decision.id in kept or decision.need in ("keep", "repair", "away")):
            keeping.append((existing, placement))
    return keeping


def holding_now(actual: Actual) -> list[tuple[Existing, Placement]]:
    """Sessions that hold something before the plan is carried out."""
    return [
        (each, each.recorded.placement)
        for each in actual.existing.values()
        if each.recorded.placement is not None
        and (each.phase in HOLDING - ENDED or any(kernel.state in LIVE for kernel in each.kernels))
    ]
