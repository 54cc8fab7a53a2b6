"""Nodes that a group keeps for some projects during a time.

A session of another project may use such a node only if it is over before the time begins. What runs there
when it begins is left alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from planner.admission.eligibility import moment_text, seconds_text
from planner.model.plan_time import PlanTime
from planner.model.types import GroupInfo, NodeReservation, Reason, SessionRequest
from planner.nodes.node_table import NodeTable


class NodeReservations:
    """The reservations of one group that are not over yet."""

    def __init__(self, group: GroupInfo, table: NodeTable, time: PlanTime) -> None:
        self._time, self._index = time, table.index
        self._coming = tuple(one for one in group.reservations if not time.passed(one.ends))

    @property
    def has_any(self) -> bool:
        return bool(self._coming)

    def blocked_nodes(self, session: SessionRequest) -> tuple[int, ...]:
        """Nodes (indices, ascending) that the session must stay off if it starts now."""
        return self._node_indices(self._conflicting(session))

    def blocked_nodes_at(self, session: SessionRequest, time: float | None) -> tuple[int, ...]:
        """The same if it starts then; None: nobody knows when."""
        if time is None:
            return self.ever_blocked_nodes(session)
        return self._node_indices(
            one
            for one in self._coming
            if session.project not in one.projects
            and time < one.ends
            and not (session.timeout is not None and time <= one.starts - session.timeout)
        )

    def ever_blocked_nodes(self, session: SessionRequest) -> tuple[int, ...]:
        """Nodes that are or will be kept for others: where a session that starts later must not count on."""
        return self._node_indices(one for one in self._coming if session.project not in one.projects)

    def until(self, session: SessionRequest) -> float | None:
        """When the last reservation ends that keeps the session from a node now."""
        return max((one.ends for one in self._conflicting(session)), default=None)

    def reasons(self, session: SessionRequest) -> tuple[Reason, ...]:
        """Whom the nodes are kept for, and until when."""
        return tuple(
            Reason("reservation", self._reservation_text(one, session)) for one in self._conflicting(session)
        )

    def reasons_on_node(self, session: SessionRequest, node: str) -> tuple[Reason, ...]:
        """The same for one node."""
        found = (one for one in self._conflicting(session) if node in one.nodes)
        return tuple(Reason("reservation", f"is {self._kept_for_text(one, session)}") for one in found)

    def _conflicting(self, session: SessionRequest) -> Iterator[NodeReservation]:
        for one in self._coming:
            if session.project not in one.projects and not self._over_before(session, one):
                yield one

    def _over_before(self, session: SessionRequest, kept: NodeReservation) -> bool:
        """Whether the session has ended before the nodes are kept, if it starts now."""
        return session.timeout is not None and not self._time.after(kept.starts - session.timeout)

    def _node_indices(self, found: Iterator[NodeReservation]) -> tuple[int, ...]:
        names = {name for one in found for name in one.nodes}
        return tuple(sorted(self._index[name] for name in names if name in self._index))

    def _reservation_text(self, one: NodeReservation, session: SessionRequest) -> str:
        nodes = sorted(one.nodes)
        more = f" and {len(nodes) - 3} more" if len(nodes) > 3 else ""
        which = f"nodes {', '.join(nodes[:3])}{more} are" if len(nodes) > 1 else f"node {nodes[0]} is"
        return f"{which} {self._kept_for_text(one, session)}"

    def _kept_for_text(self, one: NodeReservation, session: SessionRequest) -> str:
        text = f"kept for project {' and '.join(sorted(one.projects))}"
        if self._time.passed(one.starts):
            return f"{text} until {moment_text(one.ends)} (reservation {one.name})"
        may = "has no timeout" if session.timeout is None else f"may run {seconds_text(session.timeout)}"
        return f"{text} from {moment_text(one.starts)} on (reservation {one.name}), and this session {may}"
