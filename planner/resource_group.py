"""One resource group's turn: its queue in order, each session placed or kept with reasons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from planner.admission.eligibility import obstacles
from planner.admission.quota import Ledger
from planner.admission.reserved_nodes import Reserved
from planner.model.demand import roundings
from planner.model.types import (
    Eviction,
    GroupInfo,
    GroupUse,
    Placement,
    Reason,
    Running,
    SessionRequest,
    Wait,
)
from planner.nodes import metrics
from planner.nodes.node_arrays import World
from planner.queue.base import QueuePolicy, QueueView, bands
from planner.queue.skips import Skips, limit_of
from planner.selection.choose import Chooser
from planner.selection.gang import Shape, Shapes, seat, try_place
from planner.waiting import explain, waits
from planner.waiting.backfill import Reservation, reserve
from planner.waiting.forecast import Occupant, occupants
from planner.waiting.preemption import Preemptor, Victims
from planner.waiting.waits import Kept


@dataclass(slots=True)
class Memory:
    """What the turns of one group may share while its nodes are the same: who holds what, and what was worked
    out about shapes."""

    view: QueueView
    shapes: Shapes
    possible: dict[Shape, bool] = field(default_factory=dict)


@dataclass(slots=True)
class GroupResult:
    placements: list[Placement] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    evictions: list[Eviction] = field(default_factory=list)
    use: GroupUse | None = None


class GroupRun:
    """The state of one group's turn. `run` may be called once."""

    def __init__(
        self,
        group: GroupInfo,
        chooser: Chooser,
        policy: QueuePolicy,
        ledger: Ledger,
        running: Sequence[Running],
        now: float,
        usage: Mapping[str, float],
        memory: Memory | None = None,
    ) -> None:
        self.group, self.chooser, self.policy, self.ledger, self.now = group, chooser, policy, ledger, now
        self.world: World = chooser.world
        self.running = running
        self.skips = Skips(limit_of(group.queue_options))
        memory = memory or remember(group, self.world, running)
        self.view = memory.view
        self.view.now, self.view.running, self.view.usage = now, running, usage
        self._shapes, self._possible = memory.shapes, memory.possible
        self._reserved = Reserved(group, self.world, now)
        rule = group.preemption
        self._preemptor = Preemptor(chooser, ledger, rule, now) if rule else None
        self._full: set[tuple[Shape, tuple[int, ...]]] = set()
        self._reservation: Reservation | None = None
        self._kept: list[Kept] = []
        self._told: list[Shape] = []
        """Shapes that wait for nodes kept for others and would fit there."""
        self._started: dict[str, SessionRequest] = {}
        self._result = GroupResult()

    def run(self, pending: Sequence[SessionRequest], *, explained: bool = True) -> GroupResult:
        """Everybody's turn. Without explanation waits have no reasons, and nothing is said about use."""
        if not explained:
            for session in self._order(pending):
                self._step(session)
            self._result.waits = waits.unexplained(self.group, self._kept, self.skips, self._reserved)
            return self._result
        before, fits_before = metrics.used(self.world), metrics.fits_more(self.world)
        for session in self._order(pending):
            self._step(session)
        self._result.waits = waits.explained(
            self.group,
            self.chooser,
            self._kept,
            self.skips,
            self._reserved,
            self._possible,
            self._occupants(),
        )
        self._result.use = GroupUse(
            group=self.group.name,
            capacity=metrics.slots_of(self.world, self.world.capacity),
            before=before,
            after=metrics.used(self.world),
            fits_before=fits_before,
            fits_after=metrics.fits_more(self.world),
        )
        return self._result

    def _order(self, pending: Sequence[SessionRequest]) -> Iterator[SessionRequest]:
        for band in bands(pending):
            yield from self.policy(band, self.view)

    def _step(self, session: SessionRequest) -> None:
        blocked = self.ledger.over_pending(session) + obstacles(session, self.group, self.now)
        quota = self.ledger.refusals(session)
        if blocked or (quota and self._preemptor is None):
            self._keep(session, blocked + quota)
            return
        shape = self._shapes.of(session)
        if not self._is_possible(shape):
            self._keep(session, quota, shape)
        elif self.skips.closed_by is not None:
            self._backfill(session, shape, self.skips.closed_by, quota)
        else:
            self._seat(session, shape, quota)

    def _seat(self, session: SessionRequest, shape: Shape, quota: list[Reason]) -> None:
        """Place a session whose turn it is, with others pushed out for it where the group allows that."""
        away = self._reserved.away(session)
        placement = None
        if not quota and (shape, away) not in self._full:
            placement = try_place(self.chooser, session, shape, away)
        placement = placement or self._preempt(session, shape, away)
        if placement is not None:
            self._place(session, placement)
            return
        why_not = [self._preemptor.why_not(session, self.running)] if self._preemptor else []
        if quota:
            self._keep(session, quota + why_not)
            return
        self._full.add((shape, away))  # room only shrinks within one plan, but for evictions
        if away and not explain.possible(self.chooser, shape, away):
            self._keep(session, list(self._reserved.reasons(session)))
            self._kept[-1].latest = self._reserved.until(session) if self._has_room(shape) else None
            return  # it waits for a time rather than for room, and holds nobody up
        self._keep(session, why_not, shape, away)
        self.skips.wait(session)

    def _has_room(self, shape: Shape) -> bool:
        """Whether the shape would fit now on nodes kept for others, beside those that were told so before."""
        mark = self.world.checkpoint()
        told = [*self._told, shape]
        fits = all(seat(self.chooser, one) is not None for one in told)
        self.world.rollback(mark)
        if fits:
            self._told = told
        return fits

    def _preempt(self, session: SessionRequest, shape: Shape, away: tuple[int, ...]) -> Placement | None:
        if self._preemptor is None:
            return None
        victims = self._preemptor.victims(session, shape, self.running, away)
        if not victims:
            return None
        self._evict(session, victims)
        return try_place(self.chooser, session, shape, away)

    def _evict(self, session: SessionRequest, victims: Victims) -> None:
        gone = {one.id for one in victims}
        self.world.release(gone)
        self.running = [one for one in self.running if one.request.id not in gone]
        self.view.running = self.running
        for one in victims:
            self.ledger.give_back(one.request)
            self._hold(one.request, -1)
            why = f"priority {one.request.priority} makes room for {session.id} with priority"
            eviction = Eviction(one.id, self.group.name, session.id, f"{why} {session.priority}")
            self._result.evictions.append(eviction)
        self._full.clear()
        self._reservation = None
        if self._preemptor is not None:
            self._preemptor.evicted()

    def _backfill(
        self, session: SessionRequest, shape: Shape, head: SessionRequest, quota: list[Reason]
    ) -> None:
        """Place a session behind a closed queue where it cannot delay the head, if the group backfills."""
        behind = waits.behind(head, self.skips)
        if quota:
            self._keep(session, quota)
            return
        if self.group.queue_options.get("backfill") is True:
            if self._reservation is None:
                head_shape = self._shapes.of(head)
                kept = self._reserved.ever(head)
                self._reservation = reserve(self.chooser, head, head_shape, self._occupants(), kept)
            if self._reservation is not None:
                if self._robs(session, head, self._reservation):
                    text = f"{behind.message}; this session would take what a quota leaves for it"
                    self._keep(session, [Reason("reservation", text)])
                    return
                excluded = (*self._reservation.excluded(session, self.now), *self._reserved.away(session))
                excluded = tuple(sorted(set(excluded)))
                placement = try_place(self.chooser, session, shape, excluded)
                if placement is not None:
                    self._place(session, placement)
                    return
                behind = Reason("reservation", f"{behind.message}; nothing is free that would not delay it")
        self._keep(session, [behind])

    def _robs(self, session: SessionRequest, head: SessionRequest, kept: Reservation) -> bool:
        """Whether the session would still hold what the head's quotas leave when the head is to start."""
        if kept.over(session, self.now):
            return False
        before = self.ledger.refusals(head)
        self.ledger.take(session)
        after = self.ledger.refusals(head)
        self.ledger.give_back(session)
        return after != before

    def _place(self, session: SessionRequest, placement: Placement) -> None:
        self._result.placements.append(self._with_loan(session, placement))
        self._started[session.id] = session
        self._hold(session)
        self.skips.placed()
        for kernel in session.kernels:
            for rounded in roundings(kernel, session, self.group):
                text = f"{session.id}: {kernel.name} asks for {rounded.asked} and is given {rounded.given}"
                self._result.warnings.append(f"{text}: {rounded.why}")

    def _keep(
        self,
        session: SessionRequest,
        reasons: list[Reason],
        shape: Shape | None = None,
        away: tuple[int, ...] = (),
    ) -> None:
        self._kept.append(Kept(session, reasons, shape, away))
        self.ledger.wait(session)

    def _is_possible(self, shape: Shape) -> bool:
        if shape not in self._possible:
            self._possible[shape] = explain.possible(self.chooser, shape)
        return self._possible[shape]

    def _hold(self, session: SessionRequest, sign: int = 1) -> None:
        self.view.hold(session, sign)

    def _with_loan(self, session: SessionRequest, placement: Placement) -> Placement:
        """The placement, with what the session borrows said in its explanation."""
        self.ledger.take(session)
        borrowed, choice = self.ledger.borrowed(session), placement.choice
        if not borrowed or choice is None:
            return placement
        detail = f"{choice.detail}; {borrowed}" if choice.detail else borrowed
        return replace(placement, choice=replace(choice, detail=detail))

    def _occupants(self) -> list[Occupant]:
        return occupants(self.world, self.running, self._started, self.now)


def remember(group: GroupInfo, world: World, running: Sequence[Running]) -> Memory:
    """The memory of a group in which these sessions run."""
    view = QueueView(group, 0.0, metrics.slots_of(world, world.capacity))
    for one in running:
        view.hold(one.request)
    return Memory(view, Shapes(group))
