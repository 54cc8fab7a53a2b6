"""Which sessions may be stopped in one place and started again in another. Pure.

A service's replica is not among them: the service makes another one elsewhere first, and takes this one away
when that is ready. Only `drain: {force: true}` stops it at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from reconciler.plan.context import PlanContext
from reconciler.plan.decide.decision import Decision
from reconciler.values.services.pattern import service_of
from reconciler.values.state import Existing
from schemas.kinds.node import Node
from schemas.kinds.session import Session


def survives_restart(session: Session) -> bool:
    """Whether starting it again loses nothing that its document does not give up: a batch session must say
    how it goes on, by `restart` or by `checkpoint`."""
    spec = session.spec
    return spec.type != "batch" or spec.restart.policy != "never" or spec.checkpoint is not None


def may_move(session: Session) -> bool:
    """Whether a session's document lets it be stopped in one place and started again in another."""
    return session.spec.movable and survives_restart(session) and not service_of(session)


def may_be_drained(session: Session, existing: Existing) -> bool:
    """Whether a node that is drained may stop it without force."""
    free = may_move(session) or session.spec.preemptible
    return free and not service_of(session) and not session.protected and not existing.protected


def nodes_to_leave(
    session: Session, existing: Existing, nodes: Mapping[str, Node], leaving: Mapping[str, str]
) -> tuple[tuple[str, str], ...]:
    """The nodes that a session has to leave, each with what it has become; `leaving` says so of some that
    their documents do not take out of use."""
    placement = existing.recorded.placement
    found = []
    for name in sorted({part.node for part in placement.kernels} if placement else ()):
        node = nodes.get(name)
        if node is None:
            if not (service_of(session) and _is_seen(existing)):
                found.append((name, "not in the repository"))
        elif name in leaving and (node.spec.drain.force or may_be_drained(session, existing)):
            found.append((name, leaving[name]))
        elif node.spec.state == "drained" and (node.spec.drain.force or may_be_drained(session, existing)):
            found.append((name, "drained"))
    return tuple(found)


def _is_seen(existing: Existing) -> bool:
    """Whether it runs, and all of it is seen."""
    return bool(existing.kernels) and not existing.missing and not existing.away


def blocked_drains(context: PlanContext, found: Mapping[str, Decision]) -> Iterator[str]:
    """A line for each drained node that is not empty after the plan, and whom it waits for: services, which
    move their replicas, or sessions that are not moved."""
    drained = [node for node in context.desired.nodes if node.spec.state == "drained"]
    if not drained:
        return
    staying: dict[str, list[str]] = {}
    for identity, each in sorted(found.items()):
        if each.need in ("keep", "repair", "resize", "away") and each.placement is not None:
            for name in {part.node for part in each.placement.kernels}:
                staying.setdefault(name, []).append(identity)
    for node in drained:
        names = staying.get(node.name, [])
        movers = {name: service for name in names if (service := _mover(context, found[name]))}
        for service, count in sorted(Counter(movers.values()).items()):
            yield (
                f"drain of {node.name}: {service} moves its replicas, {count} of which "
                f"{'is' if count == 1 else 'are'} left there; `drain: {{force: true}}` stops them at once"
            )
        if pinned := [name for name in names if name not in movers]:
            yield (
                f"drain of {node.name}: blocked by {_shown(pinned)}, not to be moved (`movable`, "
                "`preemptible`); it waits for the end, `drain: {force: true}` stops what runs"
            )


def _mover(context: PlanContext, decision: Decision) -> str:
    """The service that replaces it elsewhere; empty for anybody but a replica of a service that there is."""
    service = service_of(decision.session) if decision.session is not None else ""
    return service if service in context.desired.services else ""


def _shown(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
