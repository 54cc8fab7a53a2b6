"""What each session needs, before anybody is placed: one `Decision` per session, from its document and what
exists. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from planner.model.types import Placement, SessionRequest
from providers.base import Capabilities
from reconciler.plan.decide.drain import to_leave
from reconciler.plan.drift import limit_drifts
from reconciler.plan.requests import recorded_session, request
from reconciler.values.field_changes import field_changes, forces, is_resize
from reconciler.values.plan import Change
from reconciler.values.session_phase import ENDED, LIVE, UNFINISHED
from reconciler.values.state import Desired, Existing
from schemas.kinds.node import Node
from schemas.kinds.session import Session

Need = Literal["keep", "repair", "place", "resize", "finish", "stop", "away", "ended", "delete"]
"""`keep`: as it is, perhaps with new labels; `repair`: same placement, some kernels made or updated again;
`place`: the planner decides (a new, waiting or replaced session); `resize`: the planner decides about more
or less on the same node; `finish`: its main container ended, the others are stopped; `stop`: it has had its
time; `away`: its node cannot be reached, and is waited for; `ended`: nothing runs and nothing will;
`delete`."""


LEFT_OVER = "kernels of another generation are left over"
LEAVES = "placement.nodes."
"""Beginning of the path of a change that stands for a node which has to be left."""
_REBOUND = frozenset({"cpus", "memory", "memory_nodes"})
"""Limits that an update puts right; a provider that can change none of them in place only has its drift
reported."""


@dataclass(frozen=True, slots=True)
class Decision:
    """One session's need. `placement` is what it holds while others are placed; `changes` are marked with
    what forces a replacement."""

    id: str
    need: Need
    session: Session | None
    existing: Existing | None
    changes: tuple[Change, ...] = ()
    why: str = ""
    placement: Placement | None = None
    generation: int = 1

    @property
    def replaces(self) -> bool:
        """Whether kernels that exist must go first."""
        return any(change.forces for change in self.changes)


def decide(
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
        return _waiting(session, existing, changes)
    if existing.phase in ENDED:
        # Nothing runs that could change in place: what is more than a note asks for another run.
        return _ended(session, existing, tuple(replace(c, forces=forces(c, None)) for c in changes))
    changes = tuple(replace(c, forces=forces(c, capabilities)) for c in changes)
    left = to_leave(session, existing, nodes, leaving or {})
    return _running(session, existing, changes, desired, capabilities, left)


def _waiting(session: Session, existing: Existing, changes: tuple[Change, ...]) -> Decision:
    why = "spec changed" if changes else LEFT_OVER if existing.strays else ""
    return Decision(
        session.identity, "place", session, existing, changes, why, generation=existing.recorded.generation
    )


def _ended(session: Session, existing: Existing, changes: tuple[Change, ...]) -> Decision:
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


def _running(
    session: Session,
    existing: Existing,
    changes: tuple[Change, ...],
    desired: Desired,
    capabilities: Capabilities | None,
    left: tuple[tuple[str, str], ...],
) -> Decision:
    generation, placement = existing.recorded.generation, existing.recorded.placement
    changes += _must_move(session, existing, left)
    if any(change.forces for change in changes):
        keeps = _same_place(session, existing, desired, changes)
        why = (
            "spec changed"
            if all(change.path.startswith(("spec", "metadata")) for change in changes)
            else _moved(changes)
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
    why = _broken(existing, capabilities)
    need = "repair" if why or changes else "keep"
    return Decision(session.identity, need, session, existing, changes, why, placement, generation)


def _must_move(session: Session, existing: Existing, left: tuple[tuple[str, str], ...]) -> tuple[Change, ...]:
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
        found.append(Change(f"{LEAVES}{node}", "active", become, forces=True))
    return tuple(found)


def _moved(changes: tuple[Change, ...]) -> str:
    change = next(
        change for change in changes if change.forces and not change.path.startswith(("spec", "metadata"))
    )
    if change.path == "phase":
        return "its termination was begun and not finished"
    if change.path.startswith(LEAVES):
        node = change.path.removeprefix(LEAVES)
        return f"node {node} is {change.after}"
    return "its containers are not all known"


def _same_place(session: Session, existing: Existing, desired: Desired, changes: tuple[Change, ...]) -> bool:
    """Whether a replacement may sit where it sat: nothing changed that placement depends on."""
    if any(change.path.startswith("placement") for change in changes):
        return False
    old = recorded_session(existing.recorded.document)
    if old is None:
        return False
    repository = desired.repository
    return _needs(request(old, repository)) == _needs(request(session, repository))


def _needs(wanted: SessionRequest) -> SessionRequest:
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


def _broken(existing: Existing, capabilities: Capabilities | None) -> str:
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
