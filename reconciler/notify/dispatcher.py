"""The thread beside a loop that tells people what happens. The loop never waits for it.

What a pass knows goes into a bounded queue; everything else (reading the store's events, sending) is done
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

from reconciler.controller.cycle import Pass
from reconciler.notify import collect, throttle
from reconciler.notify.conditions import Sight, sight_of
from reconciler.notify.message import Message, message_of
from reconciler.notify.state import Box, State, dumped, key, loaded
from reconciler.store import Store
from reconciler.values.clock import Clock
from reconciler.values.records import Lease
from schemas.kinds.notification import Notification
from schemas.problems.errors import BaiError, LeaseHeld, NotSent, StoreError

TTL = 30.0
"""Seconds after which another replica goes on when this one is silent."""
SIGHTS = 64
"""Passes that wait to be looked at; of what lasts, the newest says all."""
AT_A_TIME = 4
"""Messages that are sent at the same time."""
_LONGEST = 30.0

Post = Callable[[Notification, Message], str]


@dataclass(frozen=True, slots=True)
class Tally:
    """Numbers of one Notification, for metrics. `waiting`: news that are not sent yet."""

    sent: int = 0
    failed: int = 0
    lost: int = 0
    waiting: int = 0


class Herald:
    """`heard` gets passes, in the loop's thread; `start` and `close` the thread. Without the thread, `step`
    does one round. `tell` gets a line when a target begins to fail, and when it works again."""

    def __init__(
        self,
        store: Store,
        cluster: str,
        *,
        holder: str,
        clock: Clock,
        tell: Callable[[str], None],
        leads: Callable[[], bool] = lambda: True,
        send: Post,
    ) -> None:
        self._store, self._cluster = store, cluster
        self._holder, self._clock, self._tell = holder, clock, tell
        self.leads = leads
        self._send = send
        self._sights: queue.Queue[Sight] = queue.Queue(SIGHTS)
        self._lease: Lease | None = None
        self._state: State | None = None
        self._idle = False
        self._noted = False
        """Whether the store has this very state, and nobody else can have written another one."""
        self._notifications: Mapping[str, Notification] = {}
        self._over = threading.Event()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._said: dict[str, str] = {}
        self.overlooked = 0
        """Passes that were not looked at because too many waited."""

    @property
    def tallies(self) -> dict[str, Tally]:
        """By Notification."""
        state = self._state
        return {name: _tally(box) for name, box in (state.boxes if state else {}).items()}

    def heard(self, done: Pass) -> None:
        """A pass is over. Never waits, never raises."""
        try:
            sight = sight_of(done)
        except Exception as error:
            self._say("", f"notifications: a pass cannot be told of: {type(error).__name__}: {error}")
            return
        while True:
            try:
                self._sights.put_nowait(sight)
                break
            except queue.Full:
                self._overlook()
        self._wake.set()

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name=f"bai-notify-{self._cluster}", daemon=True)
        self._thread.start()

    def close(self, patience: float = 5.0) -> None:
        """One more round for what has just happened, then the lease is given back. What was not sent is sent
        by who runs next."""
        self._over.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(patience)
            if self._thread.is_alive():
                return
        self._give_back()

    def step(self) -> float:
        """One round: take in, send, note. Gives the seconds until the next one is due; never raises."""
        try:
            return self._round()
        except StoreError as error:
            self._noted = False
            if not isinstance(error, LeaseHeld):
                self._say("", f"notifications wait: {error.message}")
        except Exception as error:
            # Telling people must never end for one thing that cannot be told.
            self._noted = False
            self._say("", f"notifications: {type(error).__name__}: {error}")
        return _LONGEST

    def _run(self) -> None:
        while True:
            delay = self.step()
            if self._over.is_set():
                if not self._sights.empty():
                    self.step()
                return
            self._wake.wait(delay)
            self._wake.clear()

    def _round(self) -> float:
        sights = self._seen()
        if not self.leads():
            self._give_back()
            return _LONGEST
        if sights:
            self._notifications = {each.name: each for each in sights[-1].notifications}
        if not self._notifications:
            # Before the first pass it is not known whether there are any.
            return self._nothing_to_do() if sights else _LONGEST
        self._idle = False
        self._hold()
        state = self._known(sights)
        if state is None:
            return _LONGEST
        for sight in sights:
            state = collect.taken_in(state, sight, self._store)
        state = self._sent(state)
        self._say("", "")
        return self._delay(state)

    def _seen(self) -> list[Sight]:
        found = []
        while True:
            try:
                found.append(self._sights.get_nowait())
            except queue.Empty:
                return found

    def _known(self, sights: list[Sight]) -> State | None:
        """What the store has; begun anew where it has nothing, and None until there is a pass to begin at."""
        if self._noted and self._state is not None:
            return self._state
        known = loaded(self._store.meta(key(self._cluster)))
        return known or (collect.begun(self._store, sights[0]) if sights else None)

    def _nothing_to_do(self) -> float:
        """Nobody wants to be told: nothing is kept, so that a later wish begins anew."""
        if not self._idle and self._store.meta(key(self._cluster)) is not None:
            self._store.note(self._hold(), key(self._cluster), None)
        self._idle = True
        self._give_back()
        return _LONGEST

    # Sending

    def _sent(self, state: State) -> State:
        """Begin what is due, note it, send it, note what came of it; again until nothing is due now."""
        while True:
            now = self._clock.now()
            ready = {
                name: throttle.begun(state.boxes.get(name, Box()), each.spec, now)
                for name, each in self._notifications.items()
            }
            state = replace(state, boxes=ready)
            self._note(state)
            due = [self._notifications[name] for name, box in ready.items() if throttle.due(box, now)]
            if not due or not self.leads():
                return state
            done = self._together(due, ready)
            state = replace(state, boxes={**ready, **done})
            self._note(state)
            self._hold()

    def _together(self, due: list[Notification], ready: Mapping[str, Box]) -> dict[str, Box]:
        """One that is slow holds up nobody beside it."""
        with ThreadPoolExecutor(AT_A_TIME, "bai-notify-send") as pool:
            after = pool.map(lambda each: self._one(each, ready), due)
            return dict(zip([each.name for each in due], after, strict=True))

    def _one(self, notification: Notification, ready: Mapping[str, Box]) -> Box:
        """The box after a try."""
        box = ready[notification.name]
        assert box.sending is not None
        title = ""
        try:
            message = message_of(notification, box.sending)
            title = message.title
            said = self._send(notification, message)
        except BaiError as error:
            return self._failed(notification.name, box, error, title)
        except Exception as error:
            return self._failed(notification.name, box, NotSent(why=type(error).__name__), title)
        self._say(notification.name, "")
        return throttle.sent(box, self._clock.now(), said, title)

    def _failed(self, name: str, box: Box, error: BaiError, title: str) -> Box:
        wait = error.fields.get("wait")
        after = throttle.failed(
            box, self._clock.now(), error.message, title, may_pass=error.retryable,
            wait=float(wait) if isinstance(wait, int) else None,
        )  # fmt: skip
        given_up = "" if after.sending else f"; {len(box.sending.news) if box.sending else 0} events left out"
        self._say(name, f"notification {name}: {error.message}{given_up}")
        return after

    def _delay(self, state: State) -> float:
        now = self._clock.now()
        times = [
            at
            for name, each in self._notifications.items()
            if (at := throttle.next_at(state.boxes.get(name, Box()), each.spec)) is not None
        ]
        return min([_LONGEST / 3, *(max(0.0, at - now) for at in times)])

    # The store

    def _hold(self) -> Lease:
        """The lease, good for a while. Raises LeaseHeld, LeaseLost."""
        now = self._clock.now()
        if self._lease is None:
            self._noted = False
            self._lease = self._store.acquire(key(self._cluster), self._holder, TTL, now)
        elif not TTL / 2 < self._lease.expires - now <= TTL:
            try:
                self._lease = self._store.renew(self._lease, now)
            except StoreError:
                self._lease, self._noted = None, False
                raise
        return self._lease

    def _note(self, state: State) -> None:
        if self._noted and state == self._state:
            return
        try:
            self._store.note(self._hold(), key(self._cluster), dumped(state))
        except StoreError:
            self._lease, self._noted = None, False
            raise
        self._state, self._noted = state, True

    def _give_back(self) -> None:
        lease, self._lease, self._state = self._lease, None, None
        self._noted = False
        if lease is not None:
            with contextlib.suppress(StoreError):  # It is over by itself soon.
                self._store.release(lease)

    def _overlook(self) -> None:
        """The oldest makes way: what lasts is in the newer ones, what the store tells stays there."""
        with contextlib.suppress(queue.Empty):
            self._sights.get_nowait()
            self.overlooked += 1

    def _say(self, about: str, line: str) -> None:
        """Once, as long as it is the same."""
        if self._said.get(about, "") != line:
            self._said[about] = line
            self._tell(line or (f"notification {about} is sent again" if about else "notifications go on"))


def _tally(box: Box) -> Tally:
    waiting = len(box.waiting) + (len(box.sending.news) if box.sending else 0)
    return Tally(box.sent, box.failed, box.lost, waiting)
