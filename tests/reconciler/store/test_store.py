"""What every store does, whatever it is."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import threading
from dataclasses import replace

import pytest
from sqlalchemy import inspect, text

from reconciler.store.database import tables
from reconciler.store.database.address import StoreAddress
from reconciler.store.database.engine import open_engine, read_transaction, write_transaction
from reconciler.store.database.revision import REVISION
from reconciler.store.store import Store
from reconciler.values.records import EnforcementRecord, Event, ForgetRecord, JournalEntry, PutRecord
from schemas.problems.errors.store import LeaseHeld, LeaseLost, StoreError
from tests.reconciler.store.conftest import MakeAddress
from tests.reconciler.store.samples import CLUSTER, NAME, entry, full_record, record


def test_everything_of_a_record_comes_back(store: Store) -> None:
    lease = store.acquire(CLUSTER, "me", 60, 0)
    store.write(lease, [PutRecord(full_record()), PutRecord(record("Node/n1"))])
    assert store.recorded(CLUSTER) == {"Node/n1": record("Node/n1"), NAME: full_record()}
    assert store.recorded("elsewhere") == {}
    assert store.clusters() == (CLUSTER,)
    store.write(
        lease,
        [ForgetRecord(NAME), ForgetRecord("Session/never/was"), PutRecord(record("Node/n1", generation=2))],
    )
    assert store.recorded(CLUSTER) == {"Node/n1": record("Node/n1", generation=2)}


def test_a_write_is_all_or_nothing(store: Store) -> None:
    lease = store.acquire(CLUSTER, "me", 60, 0)
    with pytest.raises(StoreError, match="belongs to cluster other"):
        store.write(
            lease,
            [PutRecord(record()), Event(NAME, "", "PENDING", "new", 1.0), PutRecord(record(cluster="other"))],
        )
    assert store.recorded(CLUSTER) == {}
    assert store.events(CLUSTER) == ()


def test_one_holder_at_a_time(store: Store) -> None:
    first = store.acquire(CLUSTER, "alice", 60, now=0)
    with pytest.raises(LeaseHeld, match="alice holds the lease on cluster here until 1970-01-01T00:01:00"):
        store.acquire(CLUSTER, "bob", 60, now=59)
    assert store.acquire("other", "bob", 60, now=0).token == 1
    renewed = store.renew(first, now=50)
    with pytest.raises(LeaseHeld):
        store.acquire(CLUSTER, "bob", 60, now=109)
    store.release(renewed)
    assert store.lease(CLUSTER) is None
    assert store.acquire(CLUSTER, "bob", 60, now=109).token == 2


@pytest.mark.parametrize("how", ["expired", "stolen", "unlocked", "released"])
def test_an_old_token_writes_nothing(store: Store, how: str) -> None:
    old = store.acquire(CLUSTER, "alice", 60, now=0)
    if how == "expired":
        store.acquire(CLUSTER, "alice", 60, now=60)
    elif how == "stolen":
        assert store.steal(CLUSTER, "bob", 60, now=1).token > old.token
    elif how == "unlocked":
        assert store.unlock(CLUSTER) == old
    else:
        store.release(old)
    for write in (lambda: store.write(old, [PutRecord(record())]), lambda: store.renew(old, now=2)):
        with pytest.raises(LeaseLost):
            write()
    assert store.recorded(CLUSTER) == {}


def test_an_expired_lease_that_nobody_took_still_writes(store: Store) -> None:
    lease = store.acquire(CLUSTER, "alice", 1, now=0)
    store.write(lease, [PutRecord(record())])
    assert store.renew(lease, now=100).expires == 101


def test_releasing_a_lost_lease_leaves_the_new_holder_alone(store: Store) -> None:
    old = store.acquire(CLUSTER, "alice", 60, now=0)
    new = store.steal(CLUSTER, "bob", 60, now=1)
    store.release(old)
    assert store.lease(CLUSTER) == new


def take_and_die(address: StoreAddress) -> None:
    Store.open(address, server_time=False).acquire(CLUSTER, "child", 3600, now=0)
    os._exit(0)


@pytest.mark.parametrize("reaped", [True, False])
def test_a_dead_process_keeps_no_lease(store: Store, reaped: bool) -> None:
    # A fork would have the locks of this process's threads, and nobody to release them.
    child = multiprocessing.get_context("spawn").Process(target=take_and_die, args=(store.address,))
    child.start()
    assert child.pid is not None
    try:
        os.waitid(os.P_PID, child.pid, os.WEXITED | (0 if reaped else os.WNOWAIT))
        held = store.lease(CLUSTER)
        assert held is not None and held.holder == "child"
        assert store.acquire(CLUSTER, "parent", 60, now=1).token == held.token + 1
    finally:
        if not reaped:
            child.join()


def test_threads_that_race_for_the_lease_get_it_one_by_one(store: Store) -> None:
    won: list[int] = []

    def race(number: int) -> None:
        with contextlib.suppress(LeaseHeld):
            won.append(store.acquire(CLUSTER, f"thread {number}", 60, now=0).token)

    threads = [threading.Thread(target=race, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert won == [1]


def test_open_intents_are_those_without_an_outcome(store: Store) -> None:
    lease = store.acquire(CLUSTER, "me", 60, 0)
    store.write(lease, [entry("intent"), entry("intent", "create:other"), entry("intent", apply="a0")])
    store.write(lease, [entry("done")])
    assert [(each.apply, each.step) for each in store.open_intents(CLUSTER)] == [
        ("a0", "create:k"),
        ("a1", "create:other"),
    ]
    store.write(lease, [entry("failed", "create:other"), entry("done", apply="a0")])
    assert store.open_intents(CLUSTER) == ()
    store.write(lease, [entry("intent")])
    assert len(store.open_intents(CLUSTER)) == 1
    assert [each.state for each in store.journal(CLUSTER, "a1")] == [
        "intent",
        "intent",
        "done",
        "failed",
        "intent",
    ]
    assert len(store.journal(CLUSTER)) == 7


def test_events_come_in_order_and_in_part(store: Store) -> None:
    lease = store.acquire(CLUSTER, "me", 60, 0)
    happened = [Event(f"Session/a/s{n % 2}", "", "PENDING", "new", float(n)) for n in range(6)]
    store.write(lease, happened)
    events = store.events(CLUSTER)
    assert [event.at for event in events] == [0, 1, 2, 3, 4, 5]
    assert all(event.actor == "me" for event in events)
    assert [event.at for event in store.events(CLUSTER, limit=2)] == [4, 5]
    assert [event.at for event in store.events(CLUSTER, after=events[2].seq, resource="Session/a/s1")] == [
        3,
        5,
    ]


def test_hardware_plans_and_meta(store: Store) -> None:
    store.save_hardware(CLUSTER, "n1", "{}", 1.0)
    store.save_hardware(CLUSTER, "n1", '{"a":1}', 2.0)
    assert {node: (each.hardware, each.at) for node, each in store.hardware(CLUSTER).items()} == {
        "n1": ('{"a":1}', 2.0)
    }
    failed = EnforcementRecord("n1", "mps", "driver 1", "failed", "8 GiB were had", 1.0)
    held = replace(failed, version="driver 2", outcome="held", why="", at=2.0)
    store.save_enforcement(CLUSTER, [failed, replace(failed, means="hami")])
    store.save_enforcement(CLUSTER, [held])
    store.save_enforcement("elsewhere", [failed])
    assert store.enforcement(CLUSTER) == {
        ("n1", "mps"): held, ("n1", "hami"): replace(failed, means="hami"),
    }  # fmt: skip
    store.save_plan(CLUSTER, "digest", "text", 1.0)
    store.save_plan(CLUSTER, "digest", "text", 2.0)
    store.save_plan(CLUSTER, "dig", "another", 3.0)
    store.save_plan("elsewhere", "digest-too", "not ours", 3.0)
    assert store.saved_plans(CLUSTER, "dige") == {"digest": "text"}
    assert list(store.saved_plans(CLUSTER)) == ["dig", "digest"]
    store.set_meta("k", "1")
    store.set_meta("k", "2")
    assert (store.meta("k"), store.meta("none")) == ("2", None)


def test_only_who_holds_the_lease_notes(store: Store) -> None:
    old = store.acquire("notify/here", "alice", 60, now=0)
    store.set_meta_with_lease(old, "k", "1")
    new = store.steal("notify/here", "bob", 60, now=1)
    with pytest.raises(LeaseLost):
        store.set_meta_with_lease(old, "k", "2")
    with pytest.raises(LeaseLost):
        store.set_meta_with_lease(old, "k", None)
    assert store.meta("k") == "1"
    store.set_meta_with_lease(new, "k", None)
    assert store.meta("k") is None


def test_the_migrations_make_the_tables_that_the_program_knows(store: Store) -> None:
    engine = open_engine(store.address)
    seen = inspect(engine)
    for table in tables.metadata.sorted_tables:
        columns = {column["name"]: column["nullable"] for column in seen.get_columns(table.name)}
        assert columns == {column.name: bool(column.nullable) for column in table.columns}, table.name
        assert {index["name"] for index in seen.get_indexes(table.name)} == {
            index.name for index in table.indexes
        }
    with engine.connect() as connection:
        assert connection.execute(text("SELECT version_num FROM alembic_version")).scalar() == REVISION
    engine.dispose()


def test_it_is_there_after_reopening(store: Store) -> None:
    store.write(store.acquire(CLUSTER, "me", 60, 0), [PutRecord(full_record())])
    with Store.open(store.address) as again:
        assert again.recorded(CLUSTER) == {NAME: full_record()}


def test_an_empty_place_is_filled_by_whoever_comes_first(new_address: MakeAddress) -> None:
    where, failed = new_address(empty=True), []

    def come() -> None:
        try:
            with Store.open(where) as opened:
                assert opened.recorded(CLUSTER) == {}
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=come) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


def test_text_that_no_database_can_hold_is_kept_in_other_words(store: Store) -> None:
    odd = "before \0 after \udc80 ü"
    lease = store.acquire(CLUSTER, odd, 60, 0)
    held = record(document={"a": "\ud800", "b\0": "\0"}, reason=odd)
    failure = JournalEntry("a1", NAME, "create:k", "create", "k", "failed", 1.0, odd)
    store.write(lease, [PutRecord(held), Event(NAME, "", "ERROR", odd, 1.0), failure])
    assert store.recorded(CLUSTER)[NAME].document == held.document
    for kept in (store.recorded(CLUSTER)[NAME].reason, store.events(CLUSTER)[0].cause):
        assert kept == "before \\u0000 after \\udc80 ü"


def test_long_names_are_whole(store: Store) -> None:
    long = "Session/p/" + "x" * 5000
    store.write(store.acquire("c" * 250, "me", 60, 0), [PutRecord(record(long, cluster="c" * 250))])
    assert list(store.recorded("c" * 250)) == [long]


def test_a_record_that_cannot_be_read_says_so(store: Store) -> None:
    store.write(store.acquire(CLUSTER, "me", 60, 0), [PutRecord(full_record())])
    _execute(store, "UPDATE resources SET placement = '{}'")
    with pytest.raises(StoreError):
        store.recorded(CLUSTER)


def test_a_newer_store_is_left_alone(store: Store) -> None:
    _execute(store, "UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(StoreError, match="a newer bai wrote it"):
        Store.open(store.address)


def test_a_database_of_something_else_is_left_alone(new_address: MakeAddress) -> None:
    where = new_address(empty=True)
    if where.path is not None:
        where.path.parent.mkdir(parents=True)
    engine = open_engine(where)
    with write_transaction(engine, where) as connection:
        connection.execute(text("CREATE TABLE people (name TEXT)"))
    with pytest.raises(StoreError, match="some other program"):
        Store.open(where)
    with read_transaction(engine, where) as connection:
        assert inspect(connection).get_table_names() == ["people"]
    engine.dispose()


def _execute(store: Store, statement: str) -> None:
    engine = open_engine(store.address)
    with write_transaction(engine, store.address) as connection:
        connection.execute(text(statement))
    engine.dispose()
