"""Two writers never both have effect, and no write that was done is lost: whoever is slow, killed, or has his
connection broken."""

from __future__ import annotations

import itertools
import random
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from reconciler.store.database.address import StoreAddress
from reconciler.store.store import Store
from tests.lab.postgres import Server
from tests.reconciler.store.hammer import Writer, writers
from tests.reconciler.store.samples import CLUSTER, NAME
from tests.waiting import until

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
    with writers(store.address, range(4)) as several:
        time.sleep(SECONDS)
        until(lambda: len({event.actor for event in store.events(CLUSTER)}) > 1, "more than one has written")
    said = [each for one in several for each in one.ended()]
    check(store, said)
    assert len(said) == len(store.events(CLUSTER))


def test_writers_that_are_killed(store: Store) -> None:
    rng = random.Random(1)
    said: list[tuple[int, int]] = []
    with writers(store.address, range(3)) as living:
        end = time.monotonic() + SECONDS
        for seed in itertools.count(3):
            time.sleep(rng.uniform(0.02, 0.3))
            victim = living.pop(rng.randrange(3))
            victim.kill()
            said += victim.ended()
            living.append(Writer(store.address, seed))
            if time.monotonic() > end:
                break
        until(lambda: said or any(one.has_written() for one in living), "somebody has written")
    said += [each for one in living for each in one.ended()]
    assert said
    check(store, said)


def test_writers_whose_connections_break(postgres: Server) -> None:
    address = StoreAddress.parse(postgres.database())
    rng = random.Random(2)
    broken = 0
    with writers(address, range(3)) as several:
        end = time.monotonic() + SECONDS

        def has_broken_enough() -> bool:
            nonlocal broken
            time.sleep(rng.uniform(0.01, 0.2))
            broken += postgres.kill_connections(address.plain_url)
            return time.monotonic() > end and broken > 0

        until(has_broken_enough, "connections of the writers were broken")
        until(lambda: any(one.has_written() for one in several), "somebody has written")
    said = [each for one in several for each in one.ended()]
    with Store.open(address) as store:
        check(store, said)
    assert said
