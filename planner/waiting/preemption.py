"""Who makes room for a session that has none: victims chosen by placing the session without them first.

Only preemptible sessions of strictly lower priority that ran for the group's minimum time are asked to go,
and only when the session really fits (and its quotas hold) once they are gone. Of a service's replicas no
more go than its disruption budget has left. The fewest go; among as few,
those of the lowest priority, then those that ran least. The search is bounded by a number of trials.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from math import fsum, inf
from typing import NamedTuple

from planner.admission.quota import QuotaLedger
from planner.model import slots
from planner.model.node_state import ResourceState
from planner.model.plan_time import PlanTime
from planner.model.types import PreemptionRule, Reason, Running, SessionRequest
from planner.selection.base import Need
from planner.selection.gang import Shape, allocate
from planner.selection.need_mapping import map_need
from planner.selection.node_scorer import NO_FIT, NodeScorer

TRIALS = 5_000
_EXACT = 256
"""Up to so many sets of victims on one node are all tried; beyond, they are struck off one by one."""


class Candidate(NamedTuple):
    """A session that may be pushed out. `started`: seconds since the epoch, the end of all time where that
    is not known."""

    request: SessionRequest
    nodes: tuple[int, ...]
    started: float

    @property
    def id(self) -> str:
        return self.request.id


Victims = tuple[Candidate, ...]


class Preemptor:
    """The search for victims in one group. `disruptions`: service → how many of its replicas may go."""

    def __init__(
        self,
        scorer: NodeScorer,
        ledger: QuotaLedger,
        rule: PreemptionRule,
        time: PlanTime,
        disruptions: Mapping[str, int],
    ) -> None:
        self._disruptions = dict(disruptions)
        self._scorer, self._ledger, self._rule, self._time = scorer, ledger, rule, time
        self._table = scorer.table
        self._trials = 0
        self._nodes_of: dict[str, tuple[int, ...]] | None = None
        self._hopeless: dict[tuple[Shape, tuple[int, ...]], int] = {}
        """Shapes without room even so, and the highest priority that asked: room only shrinks until somebody
        is pushed out."""
        self._reasons: dict[int, Reason] = {}
        self._states: dict[tuple[int, frozenset[str]], tuple[ResourceState, ResourceState]] = {}

    def evicted(self, victims: Victims) -> None:
        """Somebody was pushed out: what was found before no longer holds."""
        for service, count in _count_by_service(victims).items():
            if service in self._disruptions:
                self._disruptions[service] -= count
        self._hopeless.clear()
        self._reasons.clear()

    def find_victims(
        self,
        session: SessionRequest,
        shape: Shape,
        running: Sequence[Running],
        excluded: tuple[int, ...] = (),
    ) -> Victims | None:
        """The sessions to push out for this one, or None when that would not help."""
        if self._hopeless.get((shape, excluded), session.priority - 1) >= session.priority:
            return None
        self._trials = TRIALS
        found = self.candidates(session, running)
        quota = self._victims_for_quota(session, self._within_budgets(found)) if found else None
        if quota is None:
            return None
        gone = {one.id for one in quota}
        rest = [one for one in found if one.id not in gone]
        room = self._victims_for_room(shape, quota, rest, excluded)
        if room is None:
            if not quota and not session.depends_on:
                self._hopeless[shape, excluded] = session.priority
            return None
        return self._without_the_needless(session, shape, (*quota, *room), excluded)

    def victims_for_room(
        self, shape: Shape, able: Iterable[Running], excluded: tuple[int, ...] = ()
    ) -> Victims | None:
        """Those of these sessions to push out for a shape whatever their priority and the time that they
        have run; None where that would not help."""
        self._trials = TRIALS
        where = self._nodes_by_session()
        found = [_candidate(one, where) for one in able if one.request.preemptible]
        return self._victims_for_room(shape, (), sorted(found, key=_victim_order), excluded)

    def candidates(self, session: SessionRequest, running: Iterable[Running]) -> list[Candidate]:
        """Who may be pushed out for the session at all, the first to go first."""
        where = self._nodes_by_session()
        found = [
            _candidate(one, where)
            for one in running
            if self._may_be_victim(session, one.request)
            and self._is_spare(one.request)
            and self._long_enough(one)
        ]
        return sorted(found, key=_victim_order)

    def _nodes_by_session(self) -> dict[str, tuple[int, ...]]:
        """Where those sit who ran when the plan began."""
        if self._nodes_of is None:
            where: dict[str, list[int]] = {}
            for at, residents in enumerate(self._table.residents):
                for name in dict.fromkeys(name for name, _ in residents):
                    where.setdefault(name, []).append(at)
            self._nodes_of = {name: tuple(nodes) for name, nodes in where.items()}
        return self._nodes_of

    def why_not(self, session: SessionRequest, running: Sequence[Running]) -> Reason:
        """Why nobody makes room, with the numbers."""
        if session.depends_on:
            return self._why_not(session, running)
        if session.priority not in self._reasons:
            self._reasons[session.priority] = self._why_not(session, running)
        return self._reasons[session.priority]

    def _why_not(self, session: SessionRequest, running: Sequence[Running]) -> Reason:
        able = [one for one in running if self._may_be_victim(session, one.request)]
        lower = [one for one in able if self._is_spare(one.request)]
        young = sum(not self._long_enough(one) for one in lower)
        than = f"of lower priority than {session.priority}"
        if not lower:
            needed = f"; services need {slots.plural(len(able), 'replica')} of theirs" if able else ""
            return Reason("preemption", f"nobody may be pushed out: no preemptible session {than}{needed}")
        text = f"{slots.plural(len(lower), 'preemptible session')} {than}"
        if young == len(lower):
            text += f"; none has run for {self._rule.minimum_run:g} s, the group's minimum"
        elif young:
            text += f", {young} of which started less than {self._rule.minimum_run:g} s ago; "
            text += "without the others it would still not fit"
        else:
            text += "; without them it would still not fit"
        return Reason("preemption", text)

    def _is_spare(self, victim: SessionRequest) -> bool:
        """Whether its service, if it has one, can do without it."""
        return self._disruptions.get(_counted_service(victim), 1) > 0

    @staticmethod
    def _may_be_victim(session: SessionRequest, victim: SessionRequest) -> bool:
        return (
            victim.preemptible
            and victim.priority < session.priority
            and victim.id not in session.depends_on
            and victim.id != session.id
        )

    def _long_enough(self, one: Running) -> bool:
        least = self._rule.minimum_run
        return least <= 0 or (one.started is not None and self._time.passed(one.started + least))

    def _victims_for_quota(self, session: SessionRequest, found: Sequence[Candidate]) -> Victims | None:
        """Victims after whose end every quota has room; None when none would do."""
        if self._quotas_allow(session, ()):
            return ()
        able = [one for one in found if self._ledger.may_reclaim(session, one.request)]
        return self._minimal_victims(able, lambda left: self._quotas_allow(session, left))

    def _victims_for_room(
        self, shape: Shape, gone: Victims, found: Sequence[Candidate], excluded: tuple[int, ...]
    ) -> Victims | None:
        """More victims, so that the shape fits when all are gone; None when none would do."""
        if self._fits_without(shape, gone, excluded):
            return ()
        if len(set(shape.needs)) == 1:
            quick = self._victims_by_node(shape, gone, found, excluded)
            kept = quick is not None and len(self._within_budgets(quick, gone)) == len(quick)
            if quick is not None and kept and self._fits_without(shape, (*gone, *quick), excluded):
                return quick
        spared = self._within_budgets(found, gone)
        return self._minimal_victims(spared, lambda left: self._fits_without(shape, (*gone, *left), excluded))

    def _within_budgets(self, found: Sequence[Candidate], gone: Victims = ()) -> list[Candidate]:
        """Those who may all go together beside `gone`: of each service only the first."""
        if not self._disruptions:
            return list(found)
        taken, kept = _count_by_service(gone), []
        for one in found:
            service = _counted_service(one.request)
            taken[service] += 1
            if taken[service] <= self._disruptions.get(service, taken[service]):
                kept.append(one)
        return kept

    def _victims_by_node(
        self, shape: Shape, gone: Victims, found: Sequence[Candidate], excluded: tuple[int, ...]
    ) -> Victims | None:
        """The cheapest victims on as many nodes as the shape needs, each node by itself."""
        need, count = shape.needs[0], len(shape.needs)
        here: dict[int, list[Candidate]] = {}
        for one in found:
            for at in one.nodes:
                here.setdefault(at, []).append(one)
        allowed = self._scorer.admitted(need.filter)
        touched = {at for one in gone for at in one.nodes}
        fitting = (self._scorer.scores(need) < NO_FIT).nonzero()[0].tolist() if count > 1 else []
        options: list[tuple[tuple[object, ...], int, Victims]] = []
        for at in sorted({*here, *touched, *fitting}):
            if allowed[at] and at not in excluded and self._trials > 0:
                near = self._within_budgets(here.get(at, []), gone)
                chosen = () if at in fitting else self._victims_on_node(need, at, gone, near)
                if chosen is not None:
                    options.append((victims_cost(chosen), at, chosen))
        if len(options) < count:
            return None
        options.sort(key=lambda one: one[:2])
        union = {one.id: one for _, _, chosen in options[:count] for one in chosen}
        return tuple(sorted(union.values(), key=_victim_order))

    def _victims_on_node(
        self, need: Need, at: int, gone: Victims, here: Sequence[Candidate]
    ) -> Victims | None:
        """The cheapest victims of one node without whom it holds the need."""

        def fits(left: Iterable[Candidate]) -> bool:
            self._trials -= 1
            state = self._state_without(at, frozenset(one.id for one in (*gone, *left)))
            return map_need(self._table, at, need, state) is not None

        if not fits(here):
            return None
        for size in range(len(here)):
            sets = list(itertools.islice(itertools.combinations(here, size), _EXACT + 1))
            if len(sets) > _EXACT:
                return self._minimal_victims(here, fits)
            good = [one for one in sets if fits(one)]
            if good:
                return min(good, key=victims_cost)
        return tuple(here)

    def _state_without(self, at: int, names: frozenset[str]) -> ResourceState:
        """The node without these sessions, remembered until it changes."""
        key = (at, names)
        known = self._states.get(key)
        if known is None or known[0] is not self._table.states[at]:
            known = self._states[key] = (self._table.states[at], self._table.state_without(at, names))
        return known[1]

    def _without_the_needless(
        self, session: SessionRequest, shape: Shape, chosen: Victims, excluded: tuple[int, ...]
    ) -> Victims | None:
        return self._minimal_victims(
            sorted(chosen, key=_victim_order),
            lambda left: self._quotas_allow(session, left) and self._fits_without(shape, left, excluded),
        )

    def _minimal_victims(
        self, found: Sequence[Candidate], works: Callable[[Victims], bool]
    ) -> Victims | None:
        """Those who must go: whoever can stay does, the dearest first; None when all of them are not
        enough."""
        left = tuple(found)
        if not works(left):
            return None
        for one in reversed(found):
            if self._trials <= 0:
                break
            without = tuple(other for other in left if other is not one)
            if works(without):
                left = without
        return left

    def _quotas_allow(self, session: SessionRequest, gone: Collection[Candidate]) -> bool:
        """Whether the session's quotas have room without these."""
        for one in gone:
            self._ledger.give_back(one.request)
        free = not self._ledger.violations(session)
        for one in gone:
            self._ledger.take(one.request)
        return free

    def _fits_without(self, shape: Shape, gone: Victims, excluded: tuple[int, ...]) -> bool:
        """Whether the shape has room without these; nothing is changed."""
        self._trials -= 1
        mark = self._table.checkpoint()
        for at, state in self._states_without(gone):
            self._table.set_state(at, state)
        fits = allocate(self._scorer, shape, excluded) is not None
        self._table.rollback(mark)
        return fits

    def _states_without(self, gone: Victims) -> Iterator[tuple[int, ResourceState]]:
        names = {one.id for one in gone}
        for at in sorted({at for one in gone for at in one.nodes}):
            yield at, self._table.state_without(at, names)


def _candidate(one: Running, nodes: Mapping[str, tuple[int, ...]]) -> Candidate:
    started = inf if one.started is None else one.started
    return Candidate(one.request, nodes.get(one.request.id, ()), started)


def _count_by_service(victims: Victims) -> Counter[str]:
    return Counter(service for one in victims if (service := _counted_service(one.request)))


def _counted_service(request: SessionRequest) -> str:
    """The service whose budget it counts against; empty for what no service counts on."""
    replica = request.replica_of
    return replica.service if replica is not None and not replica.spare else ""


def _victim_order(one: Candidate) -> tuple[int, float, str]:
    """Who goes first: the lowest priority, then the shortest run."""
    return (one.request.priority, -one.started, one.id)


def victims_cost(chosen: Victims) -> tuple[int, list[int], float, list[str]]:
    """What is compared between sets of victims: how many, their priorities, their lost time."""
    priorities = sorted((one.request.priority for one in chosen), reverse=True)
    return (len(chosen), priorities, -fsum(one.started for one in chosen), [one.id for one in chosen])
