"""What each session needs, before anybody is placed: one `Decision` per session, from its document and what
exists. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from planner.model.types import SessionRequest
from providers.base import Capabilities
from reconciler.plan.decide.decision import Decision, Need
from reconciler.plan.decide.drain import nodes_to_leave
from reconciler.plan.drift import limit_drifts
from reconciler.plan.planner_values import session_request
from reconciler.values.changes import change as changes_of
from reconciler.values.changes.cause import NEW, REMOVED, SPEC_CHANGED, Cause, CauseCode
from reconciler.values.changes.change import Change, ChangeKind
from reconciler.values.documents.field_changes import field_changes, forces_replacement, is_resize
from reconciler.values.documents.recorded_documents import recorded_session
from reconciler.values.session_phase import ENDED, LIVE, UNFINISHED
from reconciler.values.state import Desired, Existing
from schemas.kinds.node import Node
from schemas.kinds.session import Session

_STALE_KERNELS = Cause(CauseCode.STALE_KERNELS, "kernels of another generation are left over")
_ADOPTED = Cause(CauseCode.ADOPTED, "the store had no record of it")
_PLACEMENT_KINDS = frozenset({ChangeKind.PLACEMENT, ChangeKind.CONTAINERS, ChangeKind.LEAVE_NODE})
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
        return Decision(identity, "delete", None, existing, cause=REMOVED)
    if existing is None:
        return Decision(identity, "place", session, None, cause=NEW)
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
    cause = SPEC_CHANGED if changes else _STALE_KERNELS if existing.strays else None
    return Decision(
        session.identity, "place", session, existing, changes, cause, generation=existing.recorded.generation
    )


def _decide_ended(session: Session, existing: Existing, changes: tuple[Change, ...]) -> Decision:
    generation = existing.recorded.generation
    if existing.phase == "ERROR" and not existing.recorded.kernels and not existing.kernels:
        failed = Cause(CauseCode.CREATION_FAILED, "it could not be created before")
        cause = SPEC_CHANGED if changes else failed
        return Decision(
            session.identity, "place", session, existing, changes, cause, generation=generation + 1
        )
    if any(change.forces for change in changes):
        return Decision(
            session.identity, "place", session, existing, changes, SPEC_CHANGED, generation=generation + 1
        )
    if any(kernel.state in LIVE for kernel in existing.kernels):
        ended = Cause(CauseCode.ENDED, existing.reason)
        return Decision(session.identity, "finish", session, existing, changes, ended, generation=generation)
    left = _STALE_KERNELS if existing.strays else _ADOPTED if existing.adopted else None
    return Decision(session.identity, "ended", session, existing, changes, left, generation=generation)


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
        moved = next((each for each in changes if each.kind is not ChangeKind.FIELD), None)
        need: Need = "repair" if keeps else "place"
        return Decision(
            session.identity,
            need,
            session,
            existing,
            changes,
            _replacement_cause(moved) if moved else SPEC_CHANGED,
            placement if keeps else None,
            generation + 1,
        )
    if any(is_resize(change, capabilities) for change in changes):
        return Decision(
            session.identity, "resize", session, existing, changes, SPEC_CHANGED, placement, generation
        )
    repair = _repair_cause(existing, capabilities)
    need = "repair" if repair or changes else "keep"
    return Decision(session.identity, need, session, existing, changes, repair, placement, generation)


def _placement_changes(
    session: Session, existing: Existing, left: tuple[tuple[str, str], ...]
) -> tuple[Change, ...]:
    """What makes the placement itself impossible: nodes to be left, its containers, or a termination that
    was begun."""
    placement = existing.recorded.placement
    found = []
    if existing.recorded.phase == "TERMINATING":
        found.append(changes_of.unfinished_termination())
    if placement is None:
        return (*found, changes_of.missing_placement())
    names = [container.name for container in session.spec.containers]
    placed = [part.kernel for part in placement.kernels]
    if sorted(names) != sorted(placed):
        found.append(changes_of.other_containers(",".join(placed), ",".join(names)))
    found += (changes_of.leave_node(node, become) for node, become in left)
    return tuple(found)


def _replacement_cause(change: Change) -> Cause:
    """Why it is replaced though its document does not ask for it."""
    match change.kind:
        case ChangeKind.TERMINATION:
            text = "its termination was begun and not finished"
            return Cause(CauseCode.TERMINATION_UNFINISHED, text)
        case ChangeKind.LEAVE_NODE:
            return Cause(CauseCode.LEAVE_NODE, f"node {change.subject} is {change.after}")
        case _:
            return Cause(CauseCode.CONTAINERS_UNKNOWN, "its containers are not all known")


def _may_keep_place(
    session: Session, existing: Existing, desired: Desired, changes: tuple[Change, ...]
) -> bool:
    """Whether a replacement may sit where it sat: nothing changed that placement depends on."""
    if any(change.kind in _PLACEMENT_KINDS for change in changes):
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
        replica_of=None,
    )


def _repair_cause(existing: Existing, capabilities: Capabilities | None) -> Cause | None:
    """Why a session whose document did not change needs something nevertheless; None when it does not."""
    if existing.missing:
        if existing.recorded.phase in UNFINISHED:
            return Cause(CauseCode.CREATION_UNFINISHED, "its creation was not finished")
        return Cause(CauseCode.KERNELS_LOST, existing.reason or "kernels are gone")
    if existing.strays:
        return _STALE_KERNELS
    if existing.adopted:
        return _ADOPTED
    if any(kernel.labels.digest != existing.recorded.digest for kernel in existing.kernels):
        return Cause(CauseCode.UPDATE_UNFINISHED, "its update was not finished")
    if capabilities is None or not _REBOUND & capabilities.in_place:
        return None
    wrong = next(limit_drifts(existing, capabilities), None)
    return Cause(CauseCode.LIMITS_DRIFTED, f"{wrong.kernel} {wrong.what}") if wrong else None
