"""Sessions on nodes that cannot be reached, and what is done about them. Pure.

Nobody can tell a dead machine from a cut wire. So nothing on such a node is judged gone; where the documents
say so, a session is started again elsewhere as a new generation, and the kernels of the old one are kept in
mind as ghosts: they go as soon as their node answers again.
"""

from __future__ import annotations

from collections.abc import Iterator

from planner.model.plan_time import PlanTime
from reconciler.plan.decide.drain import survives_restart
from reconciler.provisioning.reasons import never_provisioned
from reconciler.values.changes.cause import Cause, CauseCode
from reconciler.values.plan import Drift
from reconciler.values.records import Ghost
from reconciler.values.session_phase import ENDED
from reconciler.values.state import Actual, Desired, Existing, UnreachableNode
from reconciler.values.times import format_duration, format_time
from schemas.kinds.resource_group import NodeLoss
from schemas.kinds.session import Session


def is_out_of_reach(existing: Existing) -> bool:
    """Whether what is recorded to run cannot be seen, in whole or in part."""
    return bool(existing.away) and existing.phase not in ENDED and existing.recorded.phase != "PENDING"


def unknown_nodes(actual: Actual, desired: Desired) -> tuple[str, ...]:
    """Nodes out of reach of which nobody knows whether something runs there already."""
    nodes = {node.name for node in desired.nodes}
    missed = (name for name, one in actual.missed.items() if one.stranger and name in nodes)
    # What runs sessions is brought there by provisioning: before, nothing of ours can be there.
    return tuple(
        name
        for name in missed
        if not never_provisioned(actual.provision_status, actual.provision_records, name)
    )


def unknown_nodes_reason(actual: Actual, desired: Desired) -> str:
    """Why nothing is placed while there are strangers; empty when there are none."""
    names = unknown_nodes(actual, desired)
    if not names:
        return ""
    shown = ", ".join(f"{name} ({actual.missed[name].why})" for name in names[:3])
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return (
        f"never reached from here: {shown}{more}; what runs there is not known, and could be started twice: "
        "mend it, or take its Node document out"
    )


def node_loss_rule(session: Session, desired: Desired) -> NodeLoss:
    """What the documents say about the loss of a session's node."""
    if session.spec.node_loss is not None:
        return session.spec.node_loss
    group = desired.groups.get(session.spec.resource_group or "")
    found = group.spec.node_loss if group else NodeLoss()
    return found if survives_restart(session) else found.model_copy(update={"then": "wait"})


def nodes_given_up(
    session: Session, existing: Existing, actual: Actual, desired: Desired, time: PlanTime
) -> list[str]:
    """The nodes that the session no longer waits for."""
    rule = node_loss_rule(session, desired)
    if rule.then != "reschedule":
        return []
    nodes = sorted(set(existing.away.values()))
    return [node for node in nodes if _lost_for(actual.missed.get(node), rule.after, time)]


def node_loss_cause(nodes: list[str], actual: Actual, time: PlanTime) -> Cause:
    """`no contact with n1 since 14:02 UTC: connection refused`."""
    text = "; ".join(_describe_loss(node, actual.missed.get(node), time) for node in nodes)
    return Cause(CauseCode.NODE_LOSS, text)


def _describe_loss(node: str, missed: UnreachableNode | None, time: PlanTime) -> str:
    known = missed.since if missed is not None else None
    since = f" since {format_time(known, time.to_the_day())}" if known is not None else ""
    why = f": {missed.why}" if missed and missed.why else ""
    return f"no contact with {node}{since}{why}"


def ghosts_at(existing: Existing | None, actual: Actual, generation: int | None) -> tuple[Ghost, ...]:
    """The ghosts that a session has once it is at `generation` (None: deleted): those it had, but for nodes
    that answered, and what it leaves behind now."""
    if existing is None:
        return ()
    record = existing.recorded
    ghosts = [ghost for ghost in record.ghosts if ghost.node in actual.missed]
    if generation is None or generation > record.generation:
        ghosts += [Ghost(kernel, node, record.generation) for kernel, node in existing.away.items()]
    return tuple(ghosts)


def node_loss_drifts(existing: Existing, actual: Actual, desired: Desired, time: PlanTime) -> Iterator[Drift]:
    """What is not seen of a session, and what may be left of it where nobody sees it."""
    session = desired.sessions().get(existing.id)
    if is_out_of_reach(existing):
        nodes = sorted(set(existing.away.values()))
        plan = _loss_rule_text(session, desired) if session else "waits for it"
        yield Drift(existing.id, node_loss_cause(nodes, actual, time).followed_by(plan).text)
    for ghost in existing.recorded.ghosts:
        if ghost.node in actual.missed:
            what = f"generation {ghost.generation} may still run on {ghost.node}, which is not reached"
            yield Drift(existing.id, what, ghost.kernel)


def _loss_rule_text(session: Session, desired: Desired) -> str:
    rule = node_loss_rule(session, desired)
    return f"given up after {format_duration(rule.after)}" if rule.then == "reschedule" else "waits for it"


def _lost_for(missed: UnreachableNode | None, seconds: float, time: PlanTime) -> bool:
    """Whether a node has been out of reach for so long; from now on, where that is not known."""
    since = missed.since if missed is not None else None
    return seconds <= 0 or (since is not None and time.passed(since + seconds))
