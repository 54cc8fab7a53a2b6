"""Sessions on nodes that cannot be reached, and what is done about them. Pure.

Nobody can tell a dead machine from a cut wire. So nothing on such a node is judged gone; where the documents
say so, a session is started again elsewhere as a new generation, and the kernels of the old one are kept in
mind as ghosts: they go as soon as their node answers again.
"""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.plan.decide.drain import goes_on
from reconciler.provisioning.reasons import never_joined
from reconciler.values.plan import Change, Drift
from reconciler.values.records import Ghost
from reconciler.values.session_phase import ENDED
from reconciler.values.state import Actual, Desired, Existing, Missed
from reconciler.values.times import age, clock, span
from schemas.kinds.resource_group import NodeLoss
from schemas.kinds.session import Session

CONTACT = "contact."
"""Beginning of the path of a change that stands for a lost node."""


def unseen(existing: Existing) -> bool:
    """Whether what is recorded to run cannot be seen, in whole or in part."""
    return bool(existing.away) and existing.phase not in ENDED and existing.recorded.phase != "PENDING"


def strangers(actual: Actual, desired: Desired) -> tuple[str, ...]:
    """Nodes out of reach of which nobody knows whether something runs there already."""
    nodes = {node.name for node in desired.nodes}
    missed = (name for name, one in actual.missed.items() if one.stranger and name in nodes)
    # What runs sessions is brought there by provisioning: before, nothing of ours can be there.
    return tuple(name for name in missed if not never_joined(actual.upkeep, actual.standings, name))


def stranger_reason(actual: Actual, desired: Desired) -> str:
    """Why nothing is placed while there are strangers; empty when there are none."""
    names = strangers(actual, desired)
    if not names:
        return ""
    shown = ", ".join(f"{name} ({actual.missed[name].why})" for name in names[:3])
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return (
        f"never reached from here: {shown}{more}; what runs there is not known, and could be started twice: "
        "mend it, or take its Node document out"
    )


def rule(session: Session, desired: Desired) -> NodeLoss:
    """What the documents say about the loss of a session's node."""
    if session.spec.node_loss is not None:
        return session.spec.node_loss
    group = desired.groups.get(session.spec.resource_group or "")
    found = group.spec.node_loss if group else NodeLoss()
    return found if goes_on(session) else found.model_copy(update={"then": "wait"})


def given_up(session: Session, existing: Existing, actual: Actual, desired: Desired, now: float) -> list[str]:
    """The nodes that the session no longer waits for."""
    said = rule(session, desired)
    if said.then != "reschedule":
        return []
    nodes = sorted(set(existing.away.values()))
    return [node for node in nodes if age(_since(actual.missed.get(node), now), now) >= said.after]


def lost(nodes: list[str]) -> tuple[Change, ...]:
    """Changes that make a session leave these nodes."""
    return tuple(Change(f"{CONTACT}{node}", "reached", "lost", forces=True) for node in nodes)


def why_lost(nodes: list[str], actual: Actual, now: float) -> str:
    """`no contact with n1 since 14:02 UTC: connection refused`."""
    return "; ".join(describe(node, actual.missed.get(node), now) for node in nodes)


def describe(node: str, missed: Missed | None, now: float) -> str:
    since = f" since {clock(missed.since, now)}" if missed and missed.since is not None else ""
    why = f": {missed.why}" if missed and missed.why else ""
    return f"no contact with {node}{since}{why}"


def lingering(existing: Existing | None, actual: Actual, generation: int | None) -> tuple[Ghost, ...]:
    """The ghosts that a session has once it is at `generation` (None: deleted): those it had, but for nodes
    that answered, and what it leaves behind now."""
    if existing is None:
        return ()
    record = existing.recorded
    ghosts = [ghost for ghost in record.ghosts if ghost.node in actual.missed]
    if generation is None or generation > record.generation:
        ghosts += [Ghost(kernel, node, record.generation) for kernel, node in existing.away.items()]
    return tuple(ghosts)


def contact_drifts(existing: Existing, actual: Actual, desired: Desired, now: float) -> Iterator[Drift]:
    """What is not seen of a session, and what may be left of it where nobody sees it."""
    session = desired.sessions().get(existing.id)
    if unseen(existing):
        nodes = sorted(set(existing.away.values()))
        plan = _intention(session, desired) if session else "waits for it"
        yield Drift(existing.id, f"{why_lost(nodes, actual, now)}; {plan}")
    for ghost in existing.recorded.ghosts:
        if ghost.node in actual.missed:
            what = f"generation {ghost.generation} may still run on {ghost.node}, which is not reached"
            yield Drift(existing.id, what, ghost.kernel)


def _intention(session: Session, desired: Desired) -> str:
    said = rule(session, desired)
    return f"given up after {span(said.after)}" if said.then == "reschedule" else "waits for it"


def _since(missed: Missed | None, now: float) -> float:
    return missed.since if missed is not None and missed.since is not None else now
