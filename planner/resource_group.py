"""One resource group's part of a plan: its queue in order, each session placed or left waiting with
reasons."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from planner.admission.eligibility import ineligibility_reasons
from planner.admission.quota import QuotaLedger
from planner.admission.reserved_nodes import NodeReservations
from planner.headroom.claims import ClaimedShape, claim_place
from planner.headroom.held_places import HeldPlaces, is_held_place
from planner.model.demand import roundings
from planner.model.plan_time import PlanTime
from planner.model.types import (
    Eviction,
    GroupInfo,
    Placement,
    PreemptionRule,
    Reason,
    Running,
    SessionRequest,
    Snapshot,
    Wait,
)
from planner.model.uses import GroupUse
from planner.nodes import metrics
from planner.nodes.node_table import NodeTable
from planner.queue.base import QueuePolicy, QueueView, priority_bands
from planner.queue.skips import SkipCounter, max_skips
from planner.selection.gang import Shape, ShapeCache, allocate, try_place
from planner.selection.node_scorer import NodeScorer
from planner.selection.replica_counts import NodePreference, ReplicaCounts
from planner.waiting import explain, waits
from planner.waiting.backfill import HeadReservation, reserve_for_head
from planner.waiting.forecast import Occupant, occupants
from planner.waiting.preemption import Preemptor, Victims
from planner.waiting.waits import UnplacedSession


@dataclass(slots=True)
class GroupCache:
    """What the plans of one group may share while its nodes are the same: who holds what, and what was worked
    out about shapes."""

    view: QueueView
    shapes: ShapeCache
    possible: dict[Shape, bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroupContext:
    """What one group is decided on: its scorer, over a node table that holds what runs already, and what is
    remembered from the plan before."""

    scorer: NodeScorer
    cache: GroupCache | None = None


@dataclass(slots=True)
class GroupResult:
    placements: list[Placement] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    evictions: list[Eviction] = field(default_factory=list)
    held: list[Running] = field(default_factory=list)
    unheld: list[Wait] = field(default_factory=list)
    use: GroupUse | None = None
    valid_until: float = inf


class GroupRun:
    """The state of one group's turn. `run` may be called once."""

    def __init__(
        self,
        snapshot: Snapshot,
        group: GroupInfo,
        context: GroupContext,
        policy: QueuePolicy,
        ledger: QuotaLedger,
    ) -> None:
        self.group, self.policy, self.ledger = group, policy, ledger
        self.time = time = PlanTime(snapshot.now)
        self.scorer = context.scorer
        self.table: NodeTable = context.scorer.table
        self.running: Sequence[Running] = [one for one in snapshot.running if one.request.group == group.name]
        self.skips = SkipCounter(max_skips(group.queue_options))
        cache = context.cache or make_group_cache(group, self.table, self.running)
        self.view = cache.view
        self.view.begin(time, self.running, snapshot.usage)
        self._shapes, self._possible = cache.shapes, cache.possible
        self._reserved = NodeReservations(group, self.table, time)
        rule = group.preemption
        self._preemptor = Preemptor(self.scorer, ledger, rule, time, snapshot.disruptions) if rule else None
        self._lender = self._preemptor or Preemptor(self.scorer, ledger, PreemptionRule(), time, {})
        self._held = HeldPlaces(group, self.scorer, ledger, self._shapes, self._reserved, self.view)
        self._held.take_over(snapshot.held)
        self._replicas: ReplicaCounts | None = None
        """Made when the first replica of a service asks."""
        self._no_room: set[tuple[Shape, tuple[int, ...]]] = set()
        self._reservation: HeadReservation | None = None
        self._unplaced: list[UnplacedSession] = []
        self._promised: list[Shape] = []
        """Shapes that wait for nodes kept for others and would fit there."""
        self._started: dict[str, SessionRequest] = {}
        self._result = GroupResult()

    def run(self, pending: Sequence[SessionRequest], *, explained: bool = True) -> GroupResult:
        """Everybody's turn. Without explanation waits have no reasons, and nothing is said about use."""
        if explained:
            self._run_explained(pending)
        else:
            self._run_queue(pending)
            self._result.waits = waits.unexplained_waits(
                self.group, self._unplaced, self.skips, self._reserved
            )
        self._result.held = list(self._held)
        self._result.valid_until = self.time.valid_until
        return self._result

    def _run_explained(self, pending: Sequence[SessionRequest]) -> None:
        before, fits_before = metrics.used_slots(self.table), metrics.room_by_size(self.table)
        self._run_queue(pending)
        self._held.tell(self._unplaced, self._is_possible)
        self._result.waits = waits.explained_waits(
            self.group,
            self.scorer,
            self._unplaced,
            self.skips,
            self._reserved,
            self._possible,
            self._occupants(),
        )
        self._result.use = GroupUse(
            group=self.group.name,
            capacity=metrics.slot_totals(self.table, self.table.capacity),
            before=before,
            after=metrics.used_slots(self.table),
            fits_before=fits_before,
            fits_after=metrics.room_by_size(self.table),
        )

    def _run_queue(self, pending: Sequence[SessionRequest]) -> None:
        """Replicas take places that are held for their services first; then everybody has a turn, places that
        are to be held among them."""
        wanted = [one for one in pending if is_held_place(one)]
        if not wanted and not self._held:
            for session in self._order(pending):
                self._decide(session)
            return
        sessions = [one for one in pending if not is_held_place(one)]
        for session in list(self._order(self._held.claimants(sessions))):
            self._claim(session)
        left = [one for one in sessions if one.id not in self._started]
        for session in self._order([*left, *self._held.missing(wanted)]):
            if is_held_place(session):
                self._hold(session)
            else:
                self._decide(session)

    def _claim(self, session: SessionRequest) -> None:
        """A replica takes a place that is held for its service: before the queue, since it is there already.
        Of those whom it was lent to no more go than have to, and nobody where it can do without."""
        if self.ledger.pending_violations(session) or ineligibility_reasons(session, self.group, self.time):
            return
        shape, blocked = self._shapes.of(session), self._reserved.blocked_nodes(session)

        def attempt() -> Placement | None:
            return try_place(self.scorer, session, shape, blocked, self._preference(session))

        placement, victims = claim_place(
            self._held, self._lender, session, ClaimedShape(shape, blocked), self.running, attempt
        )
        if victims:
            self._evict(session, victims, f"{session.id} takes the place that it was lent")
            placement = attempt()
        if placement is not None:
            self._place(session, placement)

    def _hold(self, request: SessionRequest) -> None:
        """Hold a place whose turn it is, in room that is free: nobody goes for one."""
        if request.replica_of in self._held.refused:
            return  # It would be told the same.
        shape, blocked = self._shapes.of(request), self._reserved.blocked_nodes(request)
        reasons = self._held.refusals(request)
        if not reasons and self.skips.closed_by is not None:
            reasons = [waits.head_of_line_reason(self.skips.closed_by, self.skips)]
        if not reasons and self._take_held_place(request, shape, blocked):
            return
        if not reasons and blocked and not explain.fits_when_empty(self.scorer, shape, blocked):
            reasons = list(self._reserved.reasons(request))
        reasons = reasons or list(explain.no_room_reasons(self.scorer, shape, self.group.name, blocked))
        self._held.refused.add(request.replica_of)
        self._result.unheld.append(Wait(request.id, self.group.name, 0, tuple(reasons)))

    def _take_held_place(self, request: SessionRequest, shape: Shape, blocked: tuple[int, ...]) -> bool:
        if (shape, blocked) not in self._no_room:
            preference = self._held.preference(request, self._there())
            placement = try_place(self.scorer, request, shape, blocked, preference)
            if placement is not None and self._held.keep(request, placement):
                self.skips.placed()
                return True
        return self._held.keep_under(request, shape, blocked, self._result.placements, self._started)

    def _there(self) -> Iterator[Running]:
        """What runs, and what was placed."""
        yield from self.running
        yield from (Running(self._started[one.session], one) for one in self._result.placements)

    def _order(self, pending: Sequence[SessionRequest]) -> Iterator[SessionRequest]:
        for band in priority_bands(pending):
            yield from self.policy(band, self.view)

    def _decide(self, session: SessionRequest) -> None:
        reasons = self.ledger.pending_violations(session)
        reasons += ineligibility_reasons(session, self.group, self.time)
        quota = self.ledger.violations(session)
        if reasons or (quota and self._preemptor is None):
            self._leave_waiting(session, reasons + quota)
            return
        shape = self._shapes.of(session)
        if not self._is_possible(shape):
            self._leave_waiting(session, quota, shape)
        elif self.skips.closed_by is not None:
            self._backfill(session, shape, self.skips.closed_by, quota)
        else:
            self._place_in_turn(session, shape, quota)

    def _place_in_turn(self, session: SessionRequest, shape: Shape, quota: list[Reason]) -> None:
        """Place a session whose turn it is, with others pushed out for it where the group allows that."""
        blocked = self._reserved.blocked_nodes(session)
        placement = None
        if not quota and (shape, blocked) not in self._no_room:
            placement = try_place(self.scorer, session, shape, blocked, self._preference(session))
        if placement is None and not quota:
            placement = self._held.lend(session, shape, blocked)
        placement = placement or self._preempt(session, shape, blocked)
        if placement is not None:
            self._place(session, placement)
            return
        why_not = [self._preemptor.why_not(session, self.running)] if self._preemptor else []
        if quota:
            self._leave_waiting(session, quota + why_not)
            return
        self._no_room.add((shape, blocked))  # room only shrinks within one plan, but for evictions
        if blocked and not explain.fits_when_empty(self.scorer, shape, blocked):
            self._leave_waiting(session, list(self._reserved.reasons(session)))
            self._unplaced[-1].latest = self._reserved.until(session) if self._has_room(shape) else None
            return  # it waits for a time rather than for room, and holds nobody up
        self._leave_waiting(session, why_not, shape, blocked)
        self.skips.record_no_room(session)

    def _preference(self, session: SessionRequest) -> NodePreference | None:
        """Which nodes a service's replica prefers, after what runs and what was placed before it."""
        if session.replica_of is None:
            return None
        if self._replicas is None:
            self._replicas = ReplicaCounts(self.table, self.running)
            for placed in self._result.placements:
                self._count_replica(self._started[placed.session], placed)
        return self._replicas.preference(session.replica_of)

    def _count_replica(self, session: SessionRequest, placement: Placement, change: int = 1) -> None:
        if session.replica_of is not None and self._replicas is not None:
            self._replicas.add(session.replica_of, placement, change)

    def _has_room(self, shape: Shape) -> bool:
        """Whether the shape would fit now on nodes kept for others, beside those that were promised room
        before."""
        mark = self.table.checkpoint()
        promised = [*self._promised, shape]
        fits = all(allocate(self.scorer, one) is not None for one in promised)
        self.table.rollback(mark)
        if fits:
            self._promised = promised
        return fits

    def _preempt(self, session: SessionRequest, shape: Shape, blocked: tuple[int, ...]) -> Placement | None:
        if self._preemptor is None:
            return None
        victims = self._preemptor.find_victims(session, shape, self.running, blocked)
        if not victims:
            return None
        self._evict(session, victims, "")
        return try_place(self.scorer, session, shape, blocked, self._preference(session))

    def _evict(self, session: SessionRequest, victims: Victims, why: str) -> None:
        """`why`: the victims have to go; empty where that is their priority."""
        gone = {one.id for one in victims}
        for left in self.running:
            if left.request.id in gone:
                self._count_replica(left.request, left.placement, -1)
        self.table.release(gone)
        self.running = [one for one in self.running if one.request.id not in gone]
        self.view.running = self.running
        for one in victims:
            self.ledger.give_back(one.request)
            self.view.hold(one.request, -1)
            lower = f"priority {one.request.priority} makes room for {session.id} with priority"
            text = why or f"{lower} {session.priority}"
            self._result.evictions.append(Eviction(one.id, self.group.name, session.id, text))
        self._no_room.clear()
        self._reservation = None
        if self._preemptor is not None:
            self._preemptor.evicted(victims)

    def _backfill(
        self, session: SessionRequest, shape: Shape, head: SessionRequest, quota: list[Reason]
    ) -> None:
        """Place a session behind a closed queue where it cannot delay the head, if the group backfills."""
        behind = waits.head_of_line_reason(head, self.skips)
        if quota:
            self._leave_waiting(session, quota)
            return
        if self.group.queue_options.get("backfill") is True:
            if self._reservation is None:
                head_shape = self._shapes.of(head)
                kept = self._reserved.ever_blocked_nodes(head)
                self._reservation = reserve_for_head(self.scorer, head, head_shape, self._occupants(), kept)
            if self._reservation is not None:
                if self._takes_quota_of(session, head, self._reservation):
                    text = f"{behind.message}; this session would take what a quota leaves for it"
                    self._leave_waiting(session, [Reason("reservation", text)])
                    return
                excluded = (
                    *self._reservation.excluded(session, self.time),
                    *self._reserved.blocked_nodes(session),
                )
                excluded = tuple(sorted(set(excluded)))
                placement = try_place(self.scorer, session, shape, excluded, self._preference(session))
                placement = placement or self._held.lend(session, shape, excluded)
                if placement is not None:
                    self._place(session, placement)
                    return
                behind = Reason("reservation", f"{behind.message}; nothing is free that would not delay it")
        self._leave_waiting(session, [behind])

    def _takes_quota_of(self, session: SessionRequest, head: SessionRequest, kept: HeadReservation) -> bool:
        """Whether the session would still hold what the head's quotas leave when the head is to start."""
        if kept.over(session, self.time):
            return False
        before = self.ledger.violations(head)
        self.ledger.take(session)
        after = self.ledger.violations(head)
        self.ledger.give_back(session)
        return after != before

    def _place(self, session: SessionRequest, placement: Placement) -> None:
        self._result.placements.append(self._with_borrowing(session, placement))
        self._started[session.id] = session
        self._count_replica(session, placement)
        self.view.hold(session)
        self.skips.placed()
        for kernel in session.kernels:
            for rounded in roundings(kernel, session, self.group):
                text = f"{session.id}: {kernel.name} asks for {rounded.asked} and is given {rounded.given}"
                self._result.warnings.append(f"{text}: {rounded.why}")

    def _leave_waiting(
        self,
        session: SessionRequest,
        reasons: list[Reason],
        shape: Shape | None = None,
        blocked: tuple[int, ...] = (),
    ) -> None:
        self._unplaced.append(UnplacedSession(session, reasons, shape, blocked))
        self.ledger.count_pending(session)

    def _is_possible(self, shape: Shape) -> bool:
        if shape not in self._possible:
            self._possible[shape] = explain.fits_when_empty(self.scorer, shape)
        return self._possible[shape]

    def _with_borrowing(self, session: SessionRequest, placement: Placement) -> Placement:
        """The placement, with what the session borrows said in its explanation."""
        self.ledger.take(session)
        borrowed, choice = self.ledger.borrowed_text(session), placement.choice
        if not borrowed or choice is None:
            return placement
        detail = f"{choice.detail}; {borrowed}" if choice.detail else borrowed
        return replace(placement, choice=replace(choice, detail=detail))

    def _occupants(self) -> list[Occupant]:
        return occupants(self.table, self.running, self._started, self.time)


def make_group_cache(group: GroupInfo, table: NodeTable, running: Sequence[Running]) -> GroupCache:
    """The cache of a group in which these sessions run."""
    view = QueueView(group, PlanTime(0.0), metrics.slot_totals(table, table.capacity))
    for one in running:
        view.hold(one.request)
    return GroupCache(view, ShapeCache(group))
