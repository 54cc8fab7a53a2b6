"""The thread beside a loop that tells people what happens. The loop never waits for it.

What a cycle knows goes into a bounded queue; everything else (reading the store's events, sending) is done
here. Only who holds the lease `notify/<cluster>` reads news and sends: of several replicas one. What is to be
sent is written to the store before it is tried, and that it was sent afterwards; both in one value together
with how far events were read. So a kill loses nothing that the store tells, and repeats at most the messages
that were just on their way, with the same bytes and the same id.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from reconciler.controller.cycle import ReconcileCycle
from reconciler.controller.replica import Replica
from reconciler.notify import collect, throttle
from reconciler.notify.conditions import ObservedConditions, observe_conditions
from reconciler.notify.message import Message, build_message
from reconciler.notify.state import NotifyState, Outbox, parse_state, serialize_state, state_key
from reconciler.values.records import Lease
from schemas.kinds.notification import Notification
from schemas.problems.errors.base import BaiError
from schemas.problems.errors.notification import NotSent
from schemas.problems.errors.store import LeaseHeld, StoreError

LEASE_TTL = 30.0
"""Seconds after which another replica goes on when this one is silent."""
MAX_QUEUED = 64
"""Cycles that wait to be looked at; of what lasts, the newest says all."""
MAX_CONCURRENT_SENDS = 4
"""Messages that are sent at the same time."""
_LONGEST_DELAY = 30.0

Deliver = Callable[[Notification, Message], str]


@dataclass(frozen=True, slots=True)
class DeliveryCounts:
    """Numbers of one Notification, for metrics. `waiting`: news that are not sent yet."""

    sent: int = 0
    failed: int = 0
    lost: int = 0
    waiting: int = 0


class Dispatcher:
    """`enqueue_cycle` gets cycles, in the loop's thread; `start` and `close` the thread. Without the thread,
    `run_round` does one round. `tell` gets a line when a target begins to fail, and when it works again."""

    def __init__(
        self,
        replica: Replica,
        *,
        tell: Callable[[str], None],
        leads: Callable[[], bool] = lambda: True,
        send: Deliver,
    ) -> None:
        self._store, self._cluster = replica.store, replica.cluster
        self._holder, self._clock, self._report = replica.holder, replica.clock, tell
        self.leads = leads
        self._send = send
        self._queue: queue.Queue[ObservedConditions] = queue.Queue(MAX_QUEUED)
        self._lease: Lease | None = None
        self._state: NotifyState | None = None
        self._idle = False
        self._saved = False
        """Whether the store has this very state, and nobody else can have written another one."""
        self._notifications: Mapping[str, Notification] = {}
        self._stopping = threading.Event()
        self._wakeup = threading.Event()
        self._thread: threading.Thread | None = None
        self._last_reports: dict[str, str] = {}
        self.dropped_cycles = 0
        """Cycles that were not looked at because too many waited."""

    @property
    def delivery_counts(self) -> dict[str, DeliveryCounts]:
        """By Notification."""
        state = self._state
        return {name: _delivery_counts(outbox) for name, outbox in (state.boxes if state else {}).items()}

    def enqueue_cycle(self, done: ReconcileCycle) -> None:
        """A cycle is over. Never waits, never raises."""
        try:
            observed = observe_conditions(done)
        except Exception as error:
            self._report_once("", f"notifications: a pass cannot be told of: {type(error).__name__}: {error}")
            return
        while True:
            try:
                self._queue.put_nowait(observed)
                break
            except queue.Full:
                self._drop_oldest()
        self._wakeup.set()

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name=f"bai-notify-{self._cluster}", daemon=True)
        self._thread.start()

    def close(self, timeout: float = 5.0) -> None:
        """One more round for what has just happened, then the lease is given back. What was not sent is sent
        by who runs next."""
        self._stopping.set()
        self._wakeup.set()
        if self._thread is not None:
            self._thread.join(timeout)
            if self._thread.is_alive():
                return
        self._release_lease()

    def run_round(self) -> float:
        """One round: take in, send, note. Gives the seconds until the next one is due; never raises."""
        try:
            return self._dispatch_round()
        except StoreError as error:
            self._saved = False
            if not isinstance(error, LeaseHeld):
                self._report_once("", f"notifications wait: {error.message}")
        except Exception as error:
            # Telling people must never end for one thing that cannot be told.
            self._saved = False
            self._report_once("", f"notifications: {type(error).__name__}: {error}")
        return _LONGEST_DELAY

    def _run(self) -> None:
        while True:
            delay = self.run_round()
            if self._stopping.is_set():
                if not self._queue.empty():
                    self.run_round()
                return
            self._wakeup.wait(delay)
            self._wakeup.clear()

    def _dispatch_round(self) -> float:
        pending = self._drain_queue()
        if not self.leads():
            self._release_lease()
            return _LONGEST_DELAY
        if pending:
            self._notifications = {each.name: each for each in pending[-1].notifications}
        if not self._notifications:
            # Before the first cycle it is not known whether there are any.
            return self._forget_state() if pending else _LONGEST_DELAY
        self._idle = False
        self._hold_lease()
        state = self._load_state(pending)
        if state is None:
            return _LONGEST_DELAY
        for observed in pending:
            state = collect.collect_news(state, observed, self._store)
        state = self._send_due(state)
        self._report_once("", "")
        return self._next_delay(state)

    def _drain_queue(self) -> list[ObservedConditions]:
        found = []
        while True:
            try:
                found.append(self._queue.get_nowait())
            except queue.Empty:
                return found

    def _load_state(self, pending: list[ObservedConditions]) -> NotifyState | None:
        """What the store has; begun anew where it has nothing, and None until there is a cycle to begin
        at."""
        if self._saved and self._state is not None:
            return self._state
        known = parse_state(self._store.meta(state_key(self._cluster)))
        return known or (collect.initial_state(self._store, pending[0]) if pending else None)

    def _forget_state(self) -> float:
        """Nobody wants to be told: nothing is kept, so that a later wish begins anew."""
        if not self._idle and self._store.meta(state_key(self._cluster)) is not None:
            self._store.set_meta_with_lease(self._hold_lease(), state_key(self._cluster), None)
        self._idle = True
        self._release_lease()
        return _LONGEST_DELAY

    # Sending

    def _send_due(self, state: NotifyState) -> NotifyState:
        """Begin what is due, note it, send it, note what came of it; again until nothing is due now."""
        while True:
            now = self._clock.now()
            ready = {
                name: throttle.begin_batch(state.boxes.get(name, Outbox()), each.spec, now)
                for name, each in self._notifications.items()
            }
            state = replace(state, boxes=ready)
            self._save_state(state)
            due = [
                self._notifications[name] for name, outbox in ready.items() if throttle.is_due(outbox, now)
            ]
            if not due or not self.leads():
                return state
            done = self._send_concurrently(due, ready)
            state = replace(state, boxes={**ready, **done})
            self._save_state(state)
            self._hold_lease()

    def _send_concurrently(self, due: list[Notification], ready: Mapping[str, Outbox]) -> dict[str, Outbox]:
        """One that is slow holds up nobody beside it."""
        with ThreadPoolExecutor(MAX_CONCURRENT_SENDS, "bai-notify-send") as pool:
            after = pool.map(lambda each: self._send_one(each, ready), due)
            return dict(zip([each.name for each in due], after, strict=True))

    def _send_one(self, notification: Notification, ready: Mapping[str, Outbox]) -> Outbox:
        """The outbox after a try."""
        outbox = ready[notification.name]
        assert outbox.sending is not None
        title = ""
        try:
            message = build_message(notification, outbox.sending)
            title = message.title
            said = self._send(notification, message)
        except BaiError as error:
            return self._record_failure(notification.name, outbox, error, title)
        except Exception as error:
            return self._record_failure(notification.name, outbox, NotSent(why=type(error).__name__), title)
        self._report_once(notification.name, "")
        return throttle.record_sent(outbox, self._clock.now(), said, title)

    def _record_failure(self, name: str, outbox: Outbox, error: BaiError, title: str) -> Outbox:
        wait = error.fields.get("wait")
        after = throttle.record_failure(
            outbox, self._clock.now(), error.message, title, retryable=error.retryable,
            wait=float(wait) if isinstance(wait, int) else None,
        )  # fmt: skip
        given_up = (
            "" if after.sending else f"; {len(outbox.sending.news) if outbox.sending else 0} events left out"
        )
        self._report_once(name, f"notification {name}: {error.message}{given_up}")
        return after

    def _next_delay(self, state: NotifyState) -> float:
        now = self._clock.now()
        times = [
            at
            for name, each in self._notifications.items()
            if (at := throttle.next_attempt_at(state.boxes.get(name, Outbox()), each.spec)) is not None
        ]
        return min([_LONGEST_DELAY / 3, *(max(0.0, at - now) for at in times)])

    # The store

    def _hold_lease(self) -> Lease:
        """The lease, good for a while. Raises LeaseHeld, LeaseLost."""
        now = self._clock.now()
        if self._lease is None:
            self._saved = False
            self._lease = self._store.acquire(state_key(self._cluster), self._holder, LEASE_TTL, now)
        elif not LEASE_TTL / 2 < self._lease.expires - now <= LEASE_TTL:
            try:
                self._lease = self._store.renew(self._lease, now)
            except StoreError:
                self._lease, self._saved = None, False
                raise
        return self._lease

    def _save_state(self, state: NotifyState) -> None:
        if self._saved and state == self._state:
            return
        try:
            self._store.set_meta_with_lease(
                self._hold_lease(), state_key(self._cluster), serialize_state(state)
            )
        except StoreError:
            self._lease, self._saved = None, False
            raise
        self._state, self._saved = state, True

    def _release_lease(self) -> None:
        lease, self._lease, self._state = self._lease, None, None
        self._saved = False
        if lease is not None:
            with contextlib.suppress(StoreError):  # It is over by itself soon.
                self._store.release(lease)

    def _drop_oldest(self) -> None:
        """The oldest makes way: what lasts is in the newer ones, what the store tells stays there."""
        with contextlib.suppress(queue.Empty):
            self._queue.get_nowait()
            self.dropped_cycles += 1

    def _report_once(self, about: str, line: str) -> None:
        """Once, as long as it is the same."""
        if self._last_reports.get(about, "") != line:
            self._last_reports[about] = line
            self._report(line or (f"notification {about} is sent again" if about else "notifications go on"))


def _delivery_counts(outbox: Outbox) -> DeliveryCounts:
    waiting = len(outbox.waiting) + (len(outbox.sending.news) if outbox.sending else 0)
    return DeliveryCounts(outbox.sent, outbox.failed, outbox.lost, waiting)
