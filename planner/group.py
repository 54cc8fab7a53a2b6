"""One resource group's turn: its queue in order, each session placed or kept with reasons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from planner import explain, metrics, slots
from planner.demand import roundings
from planner.eligibility import obstacles
from planner.forecast import Occupant, Release, forecast
from planner.gang import Shape, Shapes, try_place
from planner.queue.base import QueuePolicy, QueueView, bands
from planner.queue.skips import Skips, limit_of
from planner.quota import Ledger, demand
from planner.reservation import Reservation, reserve
from planner.selection.choose import Chooser
from planner.snapshot import World
from planner.types import GroupInfo, GroupUse, Placement, Reason, Running, SessionRequest, Wait


@dataclass(slots=True)
class _Kept:
    """A session that was not placed: its reasons, and the shape that had no room."""

    session: SessionRequest
    reasons: list[Reason]
    shape: Shape | None = None


@dataclass(slots=True)
class GroupResult:
    placements: list[Placement] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
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
    ) -> None:
        self.group, self.chooser, self.policy, self.ledger, self.now = group, chooser, policy, ledger, now
        self.world: World = chooser.world
        self.running = running
        self.skips = Skips(limit_of(group.queue_options))
        self.view = QueueView(
            group, now, metrics.slots_of(self.world, self.world.capacity), running, usage=usage
        )
        for one in running:
            self._hold(one.request)
        self._shapes = Shapes(group)
        self._full: set[Shape] = set()
        self._reservation: Reservation | None = None
        self._possible: dict[Shape, bool] = {}
        self._kept: list[_Kept] = []
        self._started: dict[str, SessionRequest] = {}
        self._result = GroupResult()

    def run(self, pending: Sequence[SessionRequest]) -> GroupResult:
        before, fits_before = metrics.used(self.world), metrics.fits_more(self.world)
        for session in self._order(pending):
            self._step(session)
        self._explain()
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
        reasons = self.ledger.over_pending(session) + obstacles(session, self.group, self.ledger, self.now)
        if reasons:
            self._keep(session, reasons)
            return
        shape = self._shapes.of(session)
        if not self._is_possible(shape):
            self._keep(session, [], shape)
            return
        if self.skips.closed_by is not None:
            self._backfill(session, shape, self.skips.closed_by)
            return
        placement = None if shape in self._full else try_place(self.chooser, session, shape)
        if placement is None:
            self._full.add(shape)  # room only shrinks within one plan
            self._keep(session, [], shape)
            self.skips.wait(session)
            return
        self._place(session, placement)

    def _backfill(self, session: SessionRequest, shape: Shape, head: SessionRequest) -> None:
        """Place a session behind a closed queue where it cannot delay the head, if the group backfills."""
        behind = _behind(head, self.skips)
        if self.group.queue_options.get("backfill") is True:
            if self._reservation is None:
                head_shape = self._shapes.of(head)
                self._reservation = reserve(self.chooser, head, head_shape, self._occupants())
            if self._reservation is not None:
                excluded = self._reservation.excluded(session, self.now)
                placement = try_place(self.chooser, session, shape, excluded)
                if placement is not None:
                    self._place(session, placement)
                    return
                behind = Reason("reservation", f"{behind.message}; nothing is free that would not delay it")
        self._keep(session, [behind])

    def _place(self, session: SessionRequest, placement: Placement) -> None:
        self._result.placements.append(placement)
        self._started[session.id] = session
        self.ledger.take(session)
        self._hold(session)
        self.skips.placed()
        for kernel in session.kernels:
            for rounded in roundings(kernel, session, self.group):
                text = f"{session.id}: {kernel.name} asks for {rounded.asked} and is given {rounded.given}"
                self._result.warnings.append(f"{text}: {rounded.why}")

    def _keep(self, session: SessionRequest, reasons: list[Reason], shape: Shape | None = None) -> None:
        self._kept.append(_Kept(session, reasons, shape))
        self.ledger.wait(session)

    def _is_possible(self, shape: Shape) -> bool:
        if shape not in self._possible:
            self._possible[shape] = explain.possible(self.chooser, shape)
        return self._possible[shape]

    def _hold(self, session: SessionRequest) -> None:
        held = self.view.held.setdefault(session.user, {})
        for slot, amount in demand(session).items():
            held[slot] = held.get(slot, 0) + amount

    def _explain(self) -> None:
        shapes = list(dict.fromkeys(one.shape for one in self._kept if one.shape is not None))
        lack = {shape: explain.lack_of_room(self.chooser, shape, self.group.name) for shape in shapes}
        waiting = [shape for shape in shapes if self._is_possible(shape)]
        releases = forecast(self.chooser, waiting, self._occupants()) if waiting else {}
        for position, kept in enumerate(self._kept, start=1):
            self._result.waits.append(self._wait(position, kept, lack, releases))

    def _wait(
        self,
        position: int,
        kept: _Kept,
        lack: dict[Shape, tuple[Reason, ...]],
        releases: Mapping[Shape, Release],
    ) -> Wait:
        session = kept.session
        reasons = [*kept.reasons, *(lack[kept.shape] if kept.shape is not None else ())]
        release = releases.get(kept.shape) if kept.shape is not None else None
        skips = self.skips.count(session)
        return Wait(
            session=session.id,
            group=self.group.name,
            position=position,
            reasons=tuple(dict.fromkeys(reasons)),
            freed_by=release.by if release else "",
            latest=release.latest if release else None,
            passed_over=skips > session.skips,
            skips=skips,
        )

    def _occupants(self) -> list[Occupant]:
        """Every session on this group's nodes, with the latest time it ends."""
        requests = {one.request.id: (one.request, one.started) for one in self.running}
        requests.update({name: (session, self.now) for name, session in self._started.items()})
        nodes: dict[str, dict[int, None]] = {}
        for at, residents in enumerate(self.world.residents):
            for session, _ in residents:
                nodes.setdefault(session, {})[at] = None
        found = []
        for session, where in nodes.items():
            request, started = requests.get(session, (None, None))
            ends = None
            if request is not None and request.timeout is not None:
                ends = max(self.now, (self.now if started is None else started) + request.timeout)
            found.append(Occupant(session, ends, tuple(where)))
        return found


def _behind(head: SessionRequest, skips: Skips) -> Reason:
    if skips.limit == 0:
        return Reason("head-of-line", f"strict order: {head.id} comes first and has no room yet")
    times = slots.plural(skips.count(head), "time")
    return Reason(
        "head-of-line", f"{head.id} comes first and was passed over {times} (maxSkips {skips.limit})"
    )
