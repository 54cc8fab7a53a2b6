"""Dominant resource fairness over a hierarchy: the domain with the smallest weighted share goes next, in it
the project, in that the user.

The share of a point is the dominant share of all that is held below it (after Bhattacharya et al., SoCC'13,
with the sums of their dynamic tree), divided by its weight. What a domain holds beyond its part therefore
counts against all its projects, however little one of them has. Points without waiting sessions are passed
by, so that nobody keeps others from what they do not ask for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from planner.model.types import SessionRequest
from planner.queue.base import QueueView, arrival, hierarchy_path
from planner.queue.dominant_share import dominant_share

LEVELS = ("domain", "project", "user")

TreePath = tuple[str, ...]


def hierarchical_drf(pending: Sequence[SessionRequest], view: QueueView) -> Iterator[SessionRequest]:
    """Yield every session of `pending` once; shares are looked at again after every placement."""
    tree = _ShareTree(view)
    for session in sorted(pending, key=arrival):
        tree.add(session)
    while (following := tree.next()) is not None:
        yield following
        tree.placed(following)


class _ShareTree:
    def __init__(self, view: QueueView) -> None:
        self._view, self._weights = view, weights_by_level(view.group.queue_options.get("weights"))
        self._below: dict[TreePath, dict[TreePath, None]] = {(): {}}
        self._queues: dict[TreePath, deque[SessionRequest]] = {}
        self._shares: dict[TreePath, Fraction] = {}
        self._first: dict[TreePath, tuple[float, str]] = {}

    def add(self, session: SessionRequest) -> None:
        above: TreePath = ()
        for point in hierarchy_path(session):
            self._below.setdefault(above, {})[point] = None
            self._first.setdefault(point, arrival(session))
            self._shares.setdefault(point, self._share(point))
            above = point
        self._queues.setdefault(above, deque()).append(session)

    def next(self) -> SessionRequest | None:
        """The session whose turn it is, taken out of the tree."""
        if not self._below[()]:
            return None
        at: TreePath = ()
        while at not in self._queues:
            at = min(self._below[at], key=lambda one: (self._shares[one], self._first[one]))
        session = self._queues[at].popleft()
        self._leave(session)
        return session

    def placed(self, session: SessionRequest) -> None:
        """Look at the shares again after the session was tried."""
        for point in hierarchy_path(session):
            self._shares[point] = self._share(point)

    def _leave(self, session: SessionRequest) -> None:
        points = hierarchy_path(session)
        queue = self._queues[points[-1]]
        if queue:
            self._first[points[-1]] = arrival(queue[0])
        else:
            del self._queues[points[-1]]
        for depth in range(len(points) - 1, -1, -1):
            point, above = points[depth], points[depth - 1] if depth else ()
            left = point in self._queues or bool(self._below.get(point))
            if not left:
                del self._below[above][point]
            elif point in self._below:
                self._first[point] = min(self._first[one] for one in self._below[point])

    def _share(self, point: TreePath) -> Fraction:
        weight = self._weights[len(point) - 1].get(point[-1], Fraction(1))
        return dominant_share(self._view, self._view.tree.get(point, {})) / weight


def weights_by_level(given: object) -> tuple[Mapping[str, Fraction], ...]:
    """`{domain/a: 2, project/p: 3, user/u: 1}` by level; a name without a level is a user's."""
    found: dict[str, dict[str, Fraction]] = {level: {} for level in LEVELS}
    for key, weight in given.items() if isinstance(given, Mapping) else ():
        level, _, name = str(key).rpartition("/")
        if isinstance(weight, int | float) and weight > 0 and (level or "user") in found:
            found[level or "user"][name] = Fraction(str(weight))
    return tuple(found[level] for level in LEVELS)
