"""What each session needs, before anybody is placed: one `Decision` per session, from its document and what
exists. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from planner.model.types import SessionRequest
from providers.base import Capabilities
from reconciler.plan.decide.decision import LEAVE_NODE_PATH, Decision, Need
from reconciler.plan.decide.drain import nodes_to_leave
from reconciler.plan.drift import limit_drifts
from reconciler.plan.planner_values import session_request
from reconciler.values.documents.recorded_documents import recorded_session
from reconciler.values.field_changes import field_changes, forces_replacement, is_resize
from reconciler.values.plan import Change
from reconciler.values.session_phase import ENDED, LIVE, UNFINISHED
from reconciler.values.state import Desired, Existing
from schemas.kinds.node import Node
from schemas.kinds.session import Session

LEFT_OVER = "kernels of another generation are left over"
_REBOUND = frozenset({"cpus", "memory", "memory_nodes"})
"""Limits that an update puts right; a provider that can change none of them in place only has its drift
reported."""


def decide_session(
    identity: str,
    desired: Desired,
    existing: Existing | None,
    capabilities: Capabilities | None,
    nodes: Mapping[str, Node],
    leaving: Mapping[str, str] | None = None,
) -> Decision:
    """What the session `identity` needs, as long as its nodes can be reached. `nodes`: those that there are,
    by name; `leaving`: those that have to be left whatever their documents say, and what they have become."""
    session = desired.sessions().get(identity) if identity in desired.resources else None
    if session is None:
        return Decision(identity, "delete", None, existing, why="no longer in the repository")
    if existing is None:
        return Decision(identity, "place", session, None, why="new")
    changes: tuple[Change, ...] = ()
    if existing.recorded.digest != desired.digests[identity]:
        changes = field_changes(existing.recorded.document, desired.documents[identity])
    if existing.recorded.phase == "PENDING":
        return _decide_waiting(session, existing, changes)
    if existing.phase in ENDED:
        # Nothing runs that could change in place: what is more than a note asks for another run.
        return _decide_ended(
            session, existing, tuple(replace(c, forces=forces_replacement(c, None)) for c in changes)
        )
    changes = tuple(replace(c, forces=forces_replacement(c, capabilities)) for c in changes)
    left = nodes_to_leave(session, existing, nodes, leaving or {})
    return _decide_running(session, existing, changes, desired, capabilities, left)


def _decide_waiting(session: Session, existing: Existing, changes: tuple[Change, ...]) -> Decision:
    why = "spec changed" if changes else LEFT_OVER if existing.strays else ""
    return Decision(
        session.identity, "place", session, existing, changes, why, generation=existing.recorded.generation
    )


def _decide_ended(session: Session, existing: Existing, changes: tuple[Change, ...]) -> Decision:
    generation = existing.recorded.generation
    if existing.phase == "ERROR" and not existing.recorded.kernels and not existing.kernels:
        why = "spec changed" if changes else "it could not be created before"
        return Decision(session.identity, "place", session, existing, changes, why, generation=generation + 1)
    if any(change.forces for change in changes):
        return Decision(
            session.identity, "place", session, existing, changes, "spec changed", generation=generation + 1
        )
    if any(kernel.state in LIVE for kernel in existing.kernels):
        return Decision(
            session.identity, "finish", session, existing, changes, existing.reason, generation=generation
        )
    why = "the store had no record of it" if existing.adopted else ""
    why = LEFT_OVER if existing.strays else why
    return Decision(session.identity, "ended", session, existing, changes, why, generation=generation)


def _decide_running(
    session: Session,
    existing: Existing,
    changes: tuple[Change, ...],
    desired: Desired,
    capabilities: Capabilities | None,
    left: tuple[tuple[str, str], ...],
) -> Decision:
    generation, placement = existing.recorded.generation, existing.recorded.placement
    changes += _placement_changes(session, existing, left)
    if any(change.forces for change in changes):
        keeps = _may_keep_place(session, existing, desired, changes)
        why = (
            "spec changed"
            if all(change.path.startswith(("spec", "metadata")) for change in changes)
            else _move_reason(changes)
        )
        need: Need = "repair" if keeps else "place"
        return Decision(
            session.identity,
            need,
            session,
            existing,
            changes,
            why,
            placement if keeps else None,
            generation + 1,
        )
    if any(is_resize(change, capabilities) for change in changes):
        return Decision(
            session.identity, "resize", session, existing, changes, "spec changed", placement, generation
        )
    why = _repair_reason(existing, capabilities)
    need = "repair" if why or changes else "keep"
    return Decision(session.identity, need, session, existing, changes, why, placement, generation)


def _placement_changes(
    session: Session, existing: Existing, left: tuple[tuple[str, str], ...]
) -> tuple[Change, ...]:
    """What makes the placement itself impossible: nodes to be left, its containers, or a termination that
    was begun."""
    placement = existing.recorded.placement
    found = []
    if existing.recorded.phase == "TERMINATING":
        found.append(Change("phase", "TERMINATING", "RUNNING", forces=True))
    if placement is None:
        return (*found, Change("placement", None, "to be decided", forces=True))
    names = [container.name for container in session.spec.containers()]
    placed = [part.kernel for part in placement.kernels]
    if sorted(names) != sorted(placed):
        found.append(Change("placement.kernels", ",".join(placed), ",".join(names), forces=True))
    for node, become in left:
        found.append(Change(f"{LEAVE_NODE_PATH}{node}", "active", become, forces=True))
    return tuple(found)


def _move_reason(changes: tuple[Change, ...]) -> str:
    change = next(
        change for change in changes if change.forces and not change.path.startswith(("spec", "metadata"))
    )
    if change.path == "phase":
        return "its termination was begun and not finished"
    if change.path.startswith(LEAVE_NODE_PATH):
        node = change.path.removeprefix(LEAVE_NODE_PATH)
        return f"node {node} is {change.after}"
    return "its containers are not all known"


def _may_keep_place(
    session: Session, existing: Existing, desired: Desired, changes: tuple[Change, ...]
) -> bool:
    """Whether a replacement may sit where it sat: nothing changed that placement depends on."""
    if any(change.path.startswith("placement") for change in changes):
        return False
    old = recorded_session(existing.recorded.document)
    if old is None:
        return False
    repository = desired.repository
    return _placement_needs(session_request(old, repository)) == _placement_needs(
        session_request(session, repository)
    )


def _placement_needs(wanted: SessionRequest) -> SessionRequest:
    """Without what has nothing to do with where it sits."""
    return replace(
        wanted,
        priority=0,
        timeout=None,
        starts_at=None,
        preemptible=False,
        depends_on=frozenset(),
        user="",
        type="",
    )


def _repair_reason(existing: Existing, capabilities: Capabilities | None) -> str:
    """Why a session whose document did not change needs something nevertheless; empty when it does not."""
    if existing.missing:
        if existing.recorded.phase in UNFINISHED:
            return "its creation was not finished"
        return existing.reason or "kernels are gone"
    if existing.strays:
        return LEFT_OVER
    if existing.adopted:
        return "the store had no record of it"
    if any(kernel.labels.digest != existing.recorded.digest for kernel in existing.kernels):
        return "its update was not finished"
    if capabilities is None or not _REBOUND & capabilities.in_place:
        return ""
    wrong = next(limit_drifts(existing, capabilities), None)
    return f"{wrong.kernel} {wrong.what}" if wrong else ""
