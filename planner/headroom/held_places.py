"""The places that are held for services in one resource group while it is planned.

A held place is a session that runs nowhere: it counts against quotas and in the queue's shares as its replica
would, and nodes are without it for everybody but preemptible sessions, which it is lent to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from planner.admission.eligibility import ineligibility_reasons
from planner.admission.quota import QuotaLedger
from planner.admission.reserved_nodes import NodeReservations
from planner.model import slots
from planner.model.service_replica import ServiceReplica
from planner.model.types import GroupInfo, Placement, Reason, Running, SessionRequest
from planner.nodes import metrics
from planner.queue.base import QueueView
from planner.selection.gang import Shape, ShapeCache, allocate, try_place
from planner.selection.node_scorer import NodeScorer
from planner.selection.replica_counts import NodePreference, ReplicaCounts
from planner.waiting.explain import demand_text
from planner.waiting.waits import UnplacedSession

_MOST_TOLD = 3
_LENT = "gives way to replicas of "


def is_held_place(request: SessionRequest) -> bool:
    return request.replica_of is not None and request.replica_of.held


def may_be_lent(request: SessionRequest) -> bool:
    """Whether it would give way: replicas do only as their services can do without."""
    return request.preemptible and request.replica_of is None


class HeldPlaces:
    """Begins with none; `take_over` has those that were held before."""

    def __init__(
        self,
        group: GroupInfo,
        scorer: NodeScorer,
        ledger: QuotaLedger,
        shapes: ShapeCache,
        reserved: NodeReservations,
        view: QueueView,
    ) -> None:
        self._group, self._scorer, self._table = group, scorer, scorer.table
        self._ledger, self._shapes, self._reserved = ledger, shapes, reserved
        self._view = view
        self._places: dict[str, Running] = {}
        self._no_room: set[tuple[Shape, tuple[int, ...]]] = set()
        self._counts: ReplicaCounts | None = None
        self.refused: set[ServiceReplica | None] = set()
        """Whose places cannot be held: all of a service and generation ask for the same."""

    def __iter__(self) -> Iterator[Running]:
        """By id."""
        return iter([place for _, place in sorted(self._places.items())])

    def __bool__(self) -> bool:
        return bool(self._places)

    def take_over(self, held: Iterable[Running]) -> None:
        """Those that were held before, counted by the ledger and on the table: who may no longer be is
        dropped."""
        there = {name for residents in self._table.held.values() for name, _ in residents}
        mine = [one for one in held if one.request.group == self._group.name]
        for one in mine:
            self._ledger.give_back(one.request)
        for one in mine:
            if one.request.id in there and not self.refusals(one.request) and self._is_admitted(one):
                self._add(one)
            else:
                self._table.drop_place(one.placement)

    def _is_admitted(self, one: Running) -> bool:
        """Whether its nodes are still such as it may be on."""
        nodes = self._nodes_of(one.placement)
        needs = self._shapes.of(one.request).needs
        open_nodes = nodes.isdisjoint(self._reserved.blocked_nodes(one.request))
        return open_nodes and all(
            any(self._scorer.admitted(need.filter)[at] for need in needs) for at in nodes
        )

    def has_quota(self, session: SessionRequest) -> bool:
        return not self._ledger.violations(session)

    def refusals(self, request: SessionRequest) -> list[Reason]:
        """Why a place may not be held, whatever room there is."""
        reasons = ineligibility_reasons(request, self._group, self._view.time)
        return [*reasons, *self._ledger.violations(request), *self._over_bound(request)]

    def _over_bound(self, request: SessionRequest) -> Iterator[Reason]:
        """Of what may be held in the group in all."""
        percent, most = self._group.held_percent, self._group.held_most
        if percent is None and not most:
            return
        held = slots.total(self._ledger.granted_slots(one.request) for one in self._places.values())
        capacity = metrics.slot_totals(self._table, self._table.capacity)
        for slot, asked in sorted(self._ledger.granted_slots(request).items()):
            bounds = [] if percent is None else [percent * capacity.get(slot, 0) // 100]
            bounds += [most[slot]] if slot in most else []
            bound, used = min(bounds, default=None), held.get(slot, 0)
            if asked > 0 and bound is not None and used + asked > bound:
                text = f"group {self._group.name} lets services hold {slots.amount_text(slot, bound)} in all"
                text += f", and {slots.amount_text(slot, used)} of it are held"
                yield Reason("headroom", f"{text}; a place asks for {slots.amount_text(slot, asked)}")

    def claimants(self, sessions: Iterable[SessionRequest]) -> list[SessionRequest]:
        """Replicas that may take a place of their services."""
        services = {one.request.replica_of.service for one in self if one.request.replica_of is not None}
        replicas = ((one, one.replica_of) for one in sessions)
        return [one for one, each in replicas if each and each.service in services and not each.restarts]

    def missing(self, wanted: Sequence[SessionRequest]) -> list[SessionRequest]:
        """Of the places that are wanted in all, requests for those that are not held. Places of a generation
        that none is wanted of any more are dropped."""
        of_service: dict[str, list[SessionRequest]] = {}
        for one in wanted:
            if one.replica_of is not None:
                of_service.setdefault(one.replica_of.service, []).append(one)
        found: list[SessionRequest] = []
        for service, requests in of_service.items():
            generations = {one.replica_of.generation for one in requests if one.replica_of is not None}
            here = self.of(service)
            for place in here:
                if place.request.replica_of and place.request.replica_of.generation not in generations:
                    self.drop(place)
            found += requests[: max(0, len(requests) - len(self.of(service)))]
        return found

    def preference(self, request: SessionRequest, running: Iterable[Running]) -> NodePreference | None:
        """Which nodes a place prefers: as a replica does, other places counted. `running`: what starts now
        among it."""
        if request.replica_of is None:
            return None
        if self._counts is None:
            self._counts = ReplicaCounts(self._table, (*running, *self))
        return self._counts.preference(request.replica_of)

    def of(self, service: str) -> list[Running]:
        """Of one service: those that nobody was lent first."""
        lent = self._table.lent
        here = [one for one in self if one.request.replica_of and one.request.replica_of.service == service]
        return sorted(here, key=lambda one: bool(lent) and bool(self.borrowers(one, ())))

    def borrowers(self, place: Running, running: Sequence[Running]) -> list[Running]:
        """Of these sessions, those that the place is lent to."""
        return [one for one in running if place.request.id in one.placement.lent]

    def _add(self, place: Running) -> None:
        self._places[place.request.id] = place
        self._ledger.take(place.request)
        self._view.hold(place.request)
        if self._counts is not None and place.request.replica_of is not None:
            self._counts.add(place.request.replica_of, place.placement)

    def keep(self, request: SessionRequest, placement: Placement) -> bool:
        """Hold what was just placed as a session's is; False where it cannot be held."""
        held = self._table.hold_place(placement)
        if held:
            self._add(Running(request, placement))
        else:
            self._table.release({request.id})
        return held

    def keep_under(
        self,
        request: SessionRequest,
        shape: Shape,
        excluded: tuple[int, ...],
        placements: list[Placement],
        started: Mapping[str, SessionRequest],
    ) -> bool:
        """Hold a place where sessions start in the same plan that would give way, wherever they stood in the
        queue: they are lent it in `placements`. False, and nothing is changed, where that makes no room."""
        starting = (one for one in placements if may_be_lent(started[one.session]))
        nodes = {one.session: self._nodes_of(one) for one in starting}
        if not nodes:
            return False
        mark = self._table.checkpoint()
        for at in sorted(set().union(*nodes.values())):
            self._table.set_state(at, self._table.state_without(at, nodes.keys()))
        placement = try_place(self._scorer, request, shape, excluded)
        if placement is None:
            self._table.rollback(mark)
            return False
        self._table.commit(mark)
        found = {name for name, where in nodes.items() if where & self._nodes_of(placement)}
        self._table.lent |= found
        kept = self.keep(request, placement)
        self._table.renew(set().union(*nodes.values()))
        for at, one in enumerate(placements) if kept else ():
            if one.session in found:
                placements[at] = self._as_lent(one, (request.id,))
        return kept

    def _nodes_of(self, placement: Placement) -> set[int]:
        return {self._table.index[kernel.node] for kernel in placement.kernels}

    def drop(self, place: Running) -> None:
        """For good, or until `put_back`."""
        del self._places[place.request.id]
        self._table.drop_place(place.placement)
        self._ledger.give_back(place.request)
        self._view.hold(place.request, -1)
        self._no_room.clear()

    def put_back(self, place: Running) -> None:
        """Nothing was placed since it was dropped."""
        self._table.hold_place(place.placement)
        self._add(place)

    def lend(self, session: SessionRequest, shape: Shape, excluded: tuple[int, ...]) -> Placement | None:
        """A place for the session on what is held, too, where it would give way; None where there is none,
        or it would not."""
        if not self._places or not may_be_lent(session):
            return None
        if (shape, excluded) in self._no_room:
            return None
        mark = self._table.checkpoint()
        self._table.open_held()
        placement = try_place(self._scorer, session, shape, excluded)
        if placement is None:
            self._table.rollback(mark)
            self._no_room.add((shape, excluded))
            return None
        self._table.commit(mark)
        self._table.lent.add(session.id)
        self._table.close_held()
        return self._as_lent(placement, self._table.held_at(sorted(self._nodes_of(placement))))

    def _as_lent(self, placement: Placement, names: Iterable[str]) -> Placement:
        """The placement, with the places that it was lent, which its explanation says."""
        lent = (*placement.lent, *names)
        replicas = (self._places[name].request.replica_of for name in lent if name in self._places)
        services = ", ".join(sorted({each.service for each in replicas if each is not None}))
        choice = placement.choice
        if choice is not None:
            said = choice.detail.partition(_LENT)[0].removesuffix("; ")
            choice = replace(choice, detail=f"{said}{'; ' if said else ''}{_LENT}{services}")
        return replace(placement, lent=lent, choice=choice)

    def tell(self, unplaced: Iterable[UnplacedSession], is_possible: Callable[[Shape], bool]) -> None:
        """Add to the reasons of those who would have room where places are held."""
        found: dict[tuple[Shape, tuple[int, ...]], Reason | None] = {}
        for one in unplaced if self._places else ():
            if one.shape is None or not is_possible(one.shape):
                continue
            key = one.shape, one.blocked_nodes
            if key not in found:
                found[key] = self._reason(*key)
            if (reason := found[key]) is not None:
                one.reasons = [*one.reasons, reason]

    def _reason(self, shape: Shape, excluded: tuple[int, ...]) -> Reason | None:
        """That a shape without room would have it on held places; None where it would not."""
        mark = self._table.checkpoint()
        self._table.open_held()
        chosen = allocate(self._scorer, shape, excluded)
        self._table.rollback(mark)
        if chosen is None:
            return None
        names = self._table.held_at(one.node for one in chosen)
        told = [self._words(self._places[name]) for name in names if name in self._places]
        more = f" and {len(told) - _MOST_TOLD} more" if len(told) > _MOST_TOLD else ""
        return Reason("headroom", f"held for {'; '.join(told[:_MOST_TOLD])}{more}") if told else None

    def _words(self, place: Running) -> str:
        """`Service/p/web: 2 GPUs, 8 cores, 16 GiB on n2`."""
        replica = place.request.replica_of
        needs = self._shapes.of(place.request).needs
        nodes = ", ".join(dict.fromkeys(kernel.node for kernel in place.placement.kernels))
        each = f"{slots.plural(len(needs), 'time')} " if len(needs) > 1 else ""
        return f"{replica.service if replica else ''}: {each}{demand_text(needs[0].sum)} on {nodes}"
