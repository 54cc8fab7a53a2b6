"""Which of several loops acts for a cluster: the one that holds the leader's lease in their common store.

The lease is a row like any other, under a name that no cluster can have. Who holds it renews it three times
before it is over; who does not asks for it once a second. A leader counts its time from before it asked, on
a clock that goes on while the machine sleeps, so that it stops acting before anybody else begins. Should it
wake up in the middle of an apply all the same, the apply's own fencing token keeps it from writing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from reconciler.controller.replica import Replica
from reconciler.values.records import Lease
from schemas.problems.errors.store import LeaseHeld, LeaseLost, StoreError

TTL = 15.0
"""Seconds after which another one goes on when the leader is silent."""
ASK_EVERY = 1.0
"""Seconds between two questions of those who wait."""


def leader_lease_name(cluster: str) -> str:
    """Under which name the store keeps the leader's lease."""
    return f"leader/{cluster}"


def seconds_awake() -> float:
    """Seconds, also those that the machine slept."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Leader:
    """`start` it; ask `leads` before every pass; `stop` it to hand over at once.

    `log` gets a line when somebody else begins to lead, `gained` is called when it is us. Both are called in
    a thread of ours.
    """

    def __init__(
        self,
        replica: Replica,
        *,
        log: Callable[[str], None],
        gained: Callable[[], None] = lambda: None,
        ttl: float = TTL,
        awake: Callable[[], float] = seconds_awake,
    ) -> None:
        self._store = replica.store
        self._cluster = replica.cluster
        self._holder = replica.holder
        self._clock = replica.clock
        self._log = log
        self._gained = gained
        self._ttl = ttl
        self._awake = awake
        self._lease: Lease | None = None
        self._until = 0.0
        self._reported = ""
        self._leader = ""
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def leads(self) -> bool:
        """Whether this one may begin something now."""
        return self._lease is not None and self._awake() < self._until

    def lease(self) -> Lease | None:
        """By which it leads; None while it does not."""
        return self._lease if self.leads() else None

    def leader(self) -> str:
        """Who leads, as far as is known; empty when that is not."""
        return self._leader

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name=f"bai-leader-{self._cluster}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Give the lease back: another one leads within a second."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()
        lease, self._lease = self._lease, None
        if lease is not None:
            try:
                self._store.release(lease)
            except StoreError as error:
                self._report(f"the lead could not be handed over: {error.message}")

    def step(self) -> None:
        """Renew, or ask; never raises for what may be better next time."""
        began = self._awake()
        try:
            if self._lease is None:
                self._acquire()
            else:
                self._lease = self._store.renew(self._lease, self._clock.now())
        except LeaseHeld as held:
            self._leader = str(held.fields["holder"])
            self._report(f"{self._leader} leads; waiting")
        except LeaseLost:
            self._lease, self._until, self._leader = None, 0.0, ""
            self._report("lost the lead: somebody else took it over")
        except StoreError as error:
            self._report(f"the lead is not certain: {error.message}")
        else:
            fresh = not self.leads()
            self._until, self._leader = began + self._ttl, self._holder
            if fresh:
                self._report("leads")
                self._gained()

    def _acquire(self) -> None:
        name = leader_lease_name(self._cluster)
        before = self._store.lease(name)
        self._lease = self._store.acquire(name, self._holder, self._ttl, self._clock.now())
        held = self._store.lease(self._cluster)
        if before is not None and held is not None and held.process and held.process == before.process:
            # The one who led is gone or silent: what he was applying is ours to finish, without waiting for
            # that lease, too. Whoever took it in this very moment keeps it.
            self._store.unlock(self._cluster, actor=self._holder, now=self._clock.now(), only=held)

    def _run(self) -> None:
        while not self._stopped.is_set():
            self.step()
            self._stopped.wait(min(ASK_EVERY, self._ttl / 3) if self._lease is None else self._ttl / 3)

    def _report(self, line: str) -> None:
        if line != self._reported:
            self._reported = line
            self._log(line)
