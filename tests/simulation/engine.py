"""Seams for the simulation: effects in an order that a seed chooses, and death at any boundary."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

from sqlalchemy import Engine

from providers.fake import VirtualClock
from reconciler.apply.effect_runner import EndedEffect
from reconciler.store.database.address import StoreAddress
from reconciler.store.store import Store
from reconciler.values.records import JournalEntry, Lease, StoreChange


class Killed(BaseException):
    """The process died here. Like SIGKILL, nobody catches it."""


class Fate:
    """Counts effect boundaries and kills at the one that is due."""

    def __init__(self) -> None:
        self.left: int | None = None
        self.intents: set[tuple[str, str]] = set()
        """Kind and kernel of the effects that the journal on disk has announced and not yet seen end."""

    def boundary(self) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left <= 0:
                raise Killed


class SeededRunner:
    """Runs what was submitted in a random order, one at a time, in the engine's own thread."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._open: dict[int, Callable[[], None]] = {}

    def submit(self, number: int, effect: Callable[[], None]) -> None:
        self._open[number] = effect

    def wait(self, timeout: float) -> list[EndedEffect]:
        ended: list[EndedEffect] = []
        for number in self._rng.sample(sorted(self._open), self._rng.randint(1, len(self._open))):
            try:
                self._open.pop(number)()
            except Exception as error:
                ended.append((number, error))
            else:
                ended.append((number, None))
        return ended

    def close(self) -> None:
        self._open.clear()


class MortalStore(Store):
    """A store whose process may die before a write, or after it and before anybody hears of it."""

    fate: Fate

    @classmethod
    def reopen(cls, address: StoreAddress, engine: Engine, fate: Fate) -> MortalStore:
        """As a new process would, with connections of its own; the tables are known to be there."""
        engine.dispose()
        store = cls(address, engine, server_time=False)
        store.fate = fate
        return store

    def write(self, lease: Lease, changes: Iterable[StoreChange]) -> None:
        changes = tuple(changes)
        self.fate.boundary()
        super().write(lease, changes)
        for entry in changes:
            if isinstance(entry, JournalEntry):
                announce = self.fate.intents.add if entry.state == "intent" else self.fate.intents.discard
                announce((entry.kind, entry.kernel))
        self.fate.boundary()


class SetClock:
    """The clock of the machine that bai runs on: the world's, but for what somebody has set it to."""

    def __init__(self, world: VirtualClock) -> None:
        self._world = world
        self.ahead = 0.0

    def now(self) -> float:
        return self._world.now() + self.ahead

    def sleep(self, seconds: float) -> None:
        self._world.sleep(seconds)
