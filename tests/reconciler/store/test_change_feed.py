"""Others hear of what one writes, on every kind of store."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from reconciler.store.database.address import StoreAddress
from reconciler.store.store import Store
from reconciler.values.records import Event, JournalEntry, PutRecord, Sample, SampleChange
from schemas.problems.errors.store import StoreUnavailable
from tests.lab.postgres import Server
from tests.reconciler.store.samples import CLUSTER, NAME, record

PATIENCE = 120.0
News = queue.Queue[dict[str, int]]


@contextmanager
def listening(store: Store, since: dict[str, int] | None = None) -> Iterator[News]:
    """What a thread that listens at another connection hears of what is written from now on."""
    since = store.revisions() if since is None else since
    news: News = queue.Queue()
    over = threading.Event()
    begun = threading.Event()

    def asked() -> bool:
        begun.set()
        return over.is_set()

    def listen() -> None:
        with Store.open(store.address) as other:
            for each in other.watch_changes(since, stop=asked):
                news.put(each)

    thread = threading.Thread(target=listen)
    thread.start()
    try:
        assert begun.wait(PATIENCE)
        yield news
    finally:
        over.set()
        thread.join(PATIENCE)
        assert not thread.is_alive()


def heard(news: News, good: Callable[[dict[str, int]], bool]) -> dict[str, int]:
    while True:
        found = news.get(timeout=PATIENCE)
        if good(found):
            return found


def test_writes_are_heard_of_by_cluster(store: Store) -> None:
    lease = store.acquire(CLUSTER, "me", 60, 0)
    other = store.acquire("other", "me", 60, 0)
    with listening(store) as news:
        store.write(lease, [PutRecord(record())])
        now = heard(news, lambda found: CLUSTER in found)
        assert now[CLUSTER] == store.revisions()[CLUSTER]
        store.write(other, [Event("Node/n", "", "RECORDED", "", 1.0)])
        assert heard(news, lambda found: "other" in found).keys() == {"other"}
        store.release(other)
        heard(news, lambda found: found == {"other": store.revisions()["other"]})


def test_what_others_want_to_hear_raises_the_revision_of_its_cluster(store: Store) -> None:
    assert (store.revision(CLUSTER), store.revisions()) == (0, {})
    lease = store.acquire(CLUSTER, "me", 60, 0)
    taken = store.revision(CLUSTER)
    store.write(lease, [PutRecord(record())])
    assert 0 < taken < store.revision(CLUSTER)
    written = store.revision(CLUSTER)
    store.renew(lease, 1)
    store.acquire("other", "me", 60, 0)
    assert store.revision(CLUSTER) == written
    assert store.revisions().keys() == {CLUSTER, "other"}


def test_what_happened_before_is_told_at_once(store: Store) -> None:
    before = store.revisions()
    store.write(store.acquire(CLUSTER, "me", 60, 0), [PutRecord(record())])
    with listening(store, before) as news:
        assert heard(news, lambda found: True) == store.revisions()


def test_measuring_and_intents_make_no_noise(store: Store) -> None:
    lease = store.acquire(CLUSTER, "me", 60, 0)
    before = store.revisions()
    entry = JournalEntry("a", NAME, "create:k", "create", "k", "intent", 1.0)
    store.write(lease, [entry, SampleChange("k", (), (Sample(1.0),))])
    store.renew(lease, 1.0)
    assert store.revisions() == before


def test_who_listens_is_told_when_the_server_is_gone(postgres: Server) -> None:
    url = postgres.database()
    with Store.open(StoreAddress.parse(url)) as store:
        told = store.watch_changes({CLUSTER: -1})
        store.write(store.acquire(CLUSTER, "me", 60, 0), [PutRecord(record())])
        assert next(told)
        postgres.stop()
        try:
            with pytest.raises(StoreUnavailable):
                next(told)
        finally:
            postgres.start()


def test_stores_in_one_database_do_not_wake_each_other(postgres: Server) -> None:
    url = postgres.database(empty=True)
    mine, theirs = (Store.open(StoreAddress.parse(f"{url}&schema={name}")) for name in "ab")
    with mine, theirs, listening(mine) as news:
        theirs.write(theirs.acquire(CLUSTER, "me", 60, 0), [PutRecord(record())])
        mine.write(mine.acquire("own", "me", 60, 0), [PutRecord(record(cluster="own"))])
        assert heard(news, lambda found: True).keys() == {"own"}
