"""Two writers never both have effect, and no write that was done is lost: whoever is slow, killed, or has his
connection broken."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from reconciler.store.database.address import StoreAddress
from reconciler.store.store import Store
from tests.lab.postgres import Server
from tests.reconciler.store.hammer import Child, child
from tests.reconciler.store.samples import CLUSTER, NAME

pytestmark = pytest.mark.slow

SECONDS = 2.5


@pytest.fixture
def store(address: StoreAddress) -> Iterator[Store]:
    """By the clock that counts."""
    with Store.open(address) as opened:
        yield opened


def check(store: Store, said: list[tuple[int, int]]) -> None:
    """Every event is one write: read in order they count without a gap, under tokens that only rise."""
    events = store.events(CLUSTER)
    numbers = [int(event.after) for event in events]
    assert numbers == list(range(1, len(events) + 1))
    assert store.recorded(CLUSTER)[NAME].generation == len(events)
    tokens = [int(event.before) for event in events]
    assert tokens == sorted(tokens)
    holders = {(token, event.actor) for token, event in zip(tokens, events, strict=True)}
    assert max(Counter(token for token, _ in holders).values()) == 1
    assert set(said) <= set(zip(tokens, numbers, strict=True))
    assert len(said) == len(set(said))


def test_many_writers_and_no_lost_write(store: Store) -> None:
    children = [child(store.address, seed, SECONDS) for seed in range(4)]
    said = [each for one in children for each in one.ended()]
    check(store, said)
    assert len(said) == len(store.events(CLUSTER))
    assert len({event.actor for event in store.events(CLUSTER)}) > 1


def test_writers_that_are_killed(store: Store) -> None:
    rng = random.Random(1)
    end = time.monotonic() + SECONDS
    said: list[tuple[int, int]] = []
    living: dict[int, Child] = {}
    seed = 0
    try:
        while time.monotonic() < end:
            while len(living) < 3:
                seed += 1
                living[seed] = child(store.address, seed, SECONDS)
            time.sleep(rng.uniform(0.02, 0.3))
            victim = living.pop(rng.choice(sorted(living)))
            os.kill(victim.pid, signal.SIGKILL)
            said += victim.ended()
    finally:
        for each in living.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(each.pid, signal.SIGKILL)
            said += each.ended()
    assert said
    check(store, said)


def test_writers_whose_connections_break(postgres: Server) -> None:
    address = StoreAddress.parse(postgres.database())
    rng = random.Random(2)
    children = [child(address, seed, SECONDS) for seed in range(3)]
    end = time.monotonic() + SECONDS
    broken = 0
    while time.monotonic() < end:
        time.sleep(rng.uniform(0.01, 0.2))
        broken += postgres.kill_connections(address.plain_url)
    said = [each for one in children for each in one.ended()]
    with Store.open(address) as store:
        check(store, said)
    assert broken and said
