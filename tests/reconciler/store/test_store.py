from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import inspect, text

from planner.types import Choice, DeviceGrant, KernelPlacement, NumaPart, Placement
from reconciler.records import Event, Forget, JournalEntry, Put, Recorded
from reconciler.store import Store, tables
from reconciler.store.engine import sqlite_engine
from schemas.errors import LeaseHeld, LeaseLost, StoreError

CLUSTER = "here"
NAME = "Session/vision/llama"


def record(resource: str = NAME, **fields: object) -> Recorded:
    return Recorded(**{"resource": resource, "cluster": CLUSTER, "generation": 1, "digest": "d1", **fields})  # type: ignore[arg-type]


def entry(state: str, step: str = "create:k", apply: str = "a1") -> JournalEntry:
    return JournalEntry(apply, NAME, step, step.partition(":")[0], "k", state, 1.0)  # type: ignore[arg-type]


def full_record() -> Recorded:
    kernel = KernelPlacement(
        kernel="main1", node="n1", cpus=(0, 1), cpu_milli=2000, memory_nodes=(0,), memory=1 << 40,
        devices=(DeviceGrant("GPU-1", "cuda", 500),), nics=("mlx5_0",), parts=(NumaPart(0, 2000, 1 << 40),),
    )  # fmt: skip
    return record(
        document={"spec": {"command": ["ü", 1, None]}},
        phase="RUNNING",
        placement=Placement(NAME, "default", (kernel,), Choice("concentrated", "3", "n2", 1, "why")),
        kernels=("llama-main1-0badcafe-g1",),
        protected=True,
        commit="c" * 40,
        enqueued_at=1.25,
        started_at=2.5,
        exit_codes={"main1": -9},
        skips=3,
        reason="because",
    )


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "repository" / ".bai" / "store.db") as opened:
        yield opened


def test_everything_of_a_record_comes_back(store: Store) -> None:
    lease = store.acquire(CLUSTER, "me", 60, 0)
    store.write(lease, [Put(full_record()), Put(record("Node/n1"))])
    assert store.recorded(CLUSTER) == {"Node/n1": record("Node/n1"), NAME: full_record()}
    assert store.recorded("elsewhere") == {}
    assert store.clusters() == (CLUSTER,)
    store.write(lease, [Forget(NAME), Forget("Session/never/was"), Put(record("Node/n1", generation=2))])
    assert store.recorded(CLUSTER) == {"Node/n1": record("Node/n1", generation=2)}


def test_it_is_there_after_reopening_and_private(store: Store) -> None:
    store.write(store.acquire(CLUSTER, "me", 60, 0), [Put(full_record())])
    for path in store.path.parent.glob("store.db*"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    assert (store.path.parent / ".gitignore").read_text() == "*\n"
    with Store.open(store.path) as again:
        assert again.recorded(CLUSTER) == {NAME: full_record()}


def test_a_write_is_all_or_nothing(store: Store) -> None:
    lease = store.acquire(CLUSTER, "me", 60, 0)
    with pytest.raises(StoreError, match="belongs to cluster other"):
        store.write(
            lease, [Put(record()), Event(NAME, "", "PENDING", "new", 1.0), Put(record(cluster="other"))]
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
    for write in (lambda: store.write(old, [Put(record())]), lambda: store.renew(old, now=2)):
        with pytest.raises(LeaseLost):
            write()
    assert store.recorded(CLUSTER) == {}


def test_an_expired_lease_that_nobody_took_still_writes(store: Store) -> None:
    lease = store.acquire(CLUSTER, "alice", 1, now=0)
    store.write(lease, [Put(record())])
    assert store.renew(lease, now=100).expires == 101


def test_releasing_a_lost_lease_leaves_the_new_holder_alone(store: Store) -> None:
    old = store.acquire(CLUSTER, "alice", 60, now=0)
    new = store.steal(CLUSTER, "bob", 60, now=1)
    store.release(old)
    assert store.lease(CLUSTER) == new


def test_a_dead_process_keeps_no_lease(store: Store) -> None:
    child = os.fork()
    if child == 0:
        Store.open(store.path).acquire(CLUSTER, "child", 3600, now=0)
        os._exit(0)
    os.waitpid(child, 0)
    held = store.lease(CLUSTER)
    assert held is not None and held.holder == "child"
    assert store.acquire(CLUSTER, "parent", 60, now=1).token == held.token + 1


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
    store.save_plan(CLUSTER, "digest", "text", 1.0)
    store.save_plan(CLUSTER, "digest", "text", 2.0)
    assert (store.saved_plan("digest"), store.saved_plan("other")) == ("text", None)
    store.set_meta("k", "1")
    store.set_meta("k", "2")
    assert (store.meta("k"), store.meta("none")) == ("2", None)


def test_the_migrations_make_the_tables_that_the_program_knows(store: Store) -> None:
    engine = sqlite_engine(store.path)
    seen = inspect(engine)
    for table in tables.metadata.sorted_tables:
        columns = {column["name"]: column["nullable"] for column in seen.get_columns(table.name)}
        assert columns == {column.name: bool(column.nullable) for column in table.columns}, table.name
        assert {index["name"] for index in seen.get_indexes(table.name)} == {
            index.name for index in table.indexes
        }
    with engine.connect() as connection:
        assert connection.execute(text("SELECT version_num FROM alembic_version")).scalar() == tables.REVISION
    engine.dispose()


def test_a_newer_store_is_left_alone(store: Store) -> None:
    with sqlite3.connect(store.path) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(StoreError, match="a newer bai wrote it"):
        Store.open(store.path)


def test_foreign_and_broken_files_are_refused(tmp_path: Path) -> None:
    foreign = tmp_path / "foreign.db"
    with sqlite3.connect(foreign) as connection:
        connection.execute("CREATE TABLE people (name)")
    with pytest.raises(StoreError, match="some other program"):
        Store.open(foreign)
    text_file = tmp_path / "text.db"
    text_file.write_text("this is not a database, " * 100)
    with pytest.raises(StoreError, match="not a database"):
        Store.open(text_file)
    assert text_file.read_text().startswith("this is not")
    with pytest.raises(StoreError, match="it is a directory"):
        Store.open(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(StoreError):
        Store.open(tmp_path / "file" / "store.db")


def test_a_damaged_store_says_so(store: Store) -> None:
    store.write(store.acquire(CLUSTER, "me", 60, 0), [Put(record(f"Session/a/s{n}")) for n in range(200)])
    store.close()
    data = bytearray(store.path.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    store.path.write_bytes(data)
    with pytest.raises(StoreError, match=r"restore a backup|malformed"):
        Store.open(store.path).recorded(CLUSTER)


def test_a_record_that_cannot_be_read_says_so(store: Store) -> None:
    store.write(store.acquire(CLUSTER, "me", 60, 0), [Put(full_record())])
    with sqlite3.connect(store.path) as connection:
        connection.execute("UPDATE resources SET placement = ?", (json.dumps({"session": 1}),))
    with pytest.raises(StoreError):
        store.recorded(CLUSTER)


def test_backup_while_in_use_and_restore(store: Store, tmp_path: Path) -> None:
    lease = store.acquire(CLUSTER, "me", 60, 0)
    store.write(lease, [Put(full_record())])
    copy = tmp_path / "copy.db"
    store.backup(copy)
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    store.write(lease, [Forget(NAME)])
    with pytest.raises(LeaseHeld, match="me"):
        Store.restore(store.path, copy, now=1)
    store.release(lease)
    Store.restore(store.path, copy, now=1)
    assert store.recorded(CLUSTER) == {NAME: full_record()}
    assert store.lease(CLUSTER) is None
    with pytest.raises(LeaseLost):
        store.write(lease, [Forget(NAME)])
    assert store.acquire(CLUSTER, "me", 60, 1).token > lease.token
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy.db", "repository"]


def test_a_bad_backup_replaces_nothing(store: Store, tmp_path: Path) -> None:
    store.write(store.acquire(CLUSTER, "me", 0, 0), [Put(record())])
    bad = tmp_path / "bad.db"
    for content in (b"", b"no database at all" * 100):
        bad.write_bytes(content)
        with pytest.raises(StoreError):
            Store.restore(store.path, bad, now=1)
    with pytest.raises(StoreError, match="no such file"):
        Store.restore(store.path, tmp_path / "missing.db", now=1)
    assert store.recorded(CLUSTER) == {NAME: record()}


def test_restoring_over_a_damaged_store_keeps_it_aside(store: Store, tmp_path: Path) -> None:
    store.write(store.acquire(CLUSTER, "me", 0, 0), [Put(record())])
    copy = tmp_path / "copy.db"
    store.backup(copy)
    store.close()
    store.path.write_bytes(b"garbage" * 1000)
    Store.restore(store.path, copy, now=1)
    with Store.open(store.path) as again:
        assert again.recorded(CLUSTER) == {NAME: record()}
    assert store.path.with_name("store.db.damaged").read_bytes().startswith(b"garbage")


def test_restore_where_there_was_no_store(store: Store, tmp_path: Path) -> None:
    store.write(store.acquire(CLUSTER, "me", 0, 0), [Put(record())])
    store.backup(tmp_path / "copy.db")
    Store.restore(tmp_path / "fresh" / "store.db", tmp_path / "copy.db", now=1)
    with Store.open(tmp_path / "fresh" / "store.db") as fresh:
        assert fresh.recorded(CLUSTER) == {NAME: record()}
