"""What is read again is what was written, whoever wrote: who has read before sees what a new reader sees."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from reconciler.store import record_cache
from reconciler.store.database.questions import Ask, Row
from reconciler.store.record_cache import RecordCache
from reconciler.store.store import Store
from reconciler.values.records import ForgetRecord, Lease, PutRecord, StoreChange
from tests.reconciler.store.samples import CLUSTER, full_record, record


def name(number: int) -> str:
    return f"Session/p/s{number}"


def read(store: Store) -> dict[str, object]:
    """As somebody sees it who has read nothing before."""
    with Store.open(store.address, server_time=False) as fresh:
        return {**fresh.recorded(CLUSTER)}


@pytest.fixture
def lease(store: Store) -> Lease:
    return store.acquire(CLUSTER, "me", 60.0, 0.0)


def test_who_has_read_before_sees_what_others_write(store: Store, lease: Lease) -> None:
    chance = random.Random(4)
    with Store.open(store.address, server_time=False) as other:
        for turn in range(60):
            changes: list[StoreChange] = []
            for number in chance.sample(range(12), chance.randrange(4)):
                if chance.random() < 0.3:
                    changes.append(ForgetRecord(name(number)))
                else:
                    changes.append(PutRecord(record(name(number), generation=turn + 1)))
            chance.choice((store, other)).write(lease, changes)
            assert list(store.recorded(CLUSTER).items()) == list(read(store).items())
            assert store.cluster_records(CLUSTER).recorded == store.recorded(CLUSTER)


def test_a_copy_of_before_is_read_as_it_is(store: Store, lease: Lease, tmp_path: Path) -> None:
    """Its records are older, and what was made since is gone, whatever numbers the store is at."""
    store.write(lease, [PutRecord(full_record()), PutRecord(record(name(1)))])
    store.backup(tmp_path / "copy.db")
    store.write(lease, [PutRecord(record(name(1), generation=2)), PutRecord(record(name(2)))])
    before = store.recorded(CLUSTER)
    assert before[name(1)].generation == 2
    store.release(lease)
    Store.restore(store.address, tmp_path / "copy.db", now=1, actor="ada")
    assert store.recorded(CLUSTER) == read(store) != before


def test_times_that_were_mended_are_read(store: Store, lease: Lease) -> None:
    store.write(lease, [PutRecord(record(name(1), enqueued_at=500.0))])
    assert store.recorded(CLUSTER)[name(1)].enqueued_at == 500.0
    store.clamp_future_times(lease, 100.0)
    assert store.recorded(CLUSTER)[name(1)].enqueued_at == 100.0


def test_nobody_changes_what_others_are_given(store: Store, lease: Lease) -> None:
    store.write(lease, [PutRecord(record(name(1)))])
    store.recorded(CLUSTER).clear()
    assert list(store.recorded(CLUSTER)) == [name(1)]


class Counting:
    """A store's answers, and how many rows of resources they have had, without those of their versions; and
    how many rows of any kind."""

    def __init__(self, store: Store) -> None:
        self.store, self.rows, self.all_rows = store, 0, 0
        self.cache = RecordCache()

    def look(self) -> int:
        """How many rows one more look reads."""
        self.rows = self.all_rows = 0
        with self.store._asking(one_moment=True) as ask:
            self.cache.read(self._counted(ask), CLUSTER, on_server=self.store.address.on_server)
        return self.rows

    def _counted(self, ask: Ask) -> Ask:
        def counted(sql: str, **parameters: object) -> Sequence[Row]:
            found = ask(sql, **parameters)
            self.all_rows += len(found)
            self.rows += len(found) if sql.startswith("SELECT *") else 0
            return found

        return counted


def test_a_look_reads_what_was_written_since(store: Store, lease: Lease) -> None:
    looks = Counting(store)
    assert looks.look() == 0
    store.write(lease, [PutRecord(record(name(number))) for number in range(40)])
    assert [looks.look(), looks.look()] == [40, 0]
    store.write(lease, [PutRecord(record(name(3), generation=2)), ForgetRecord(name(4))])
    assert [looks.look(), looks.look()] == [1, 0]
    store.write(lease, [ForgetRecord(name(5))])
    assert looks.look() == 0
    assert looks.cache._known is not None
    assert looks.cache._known.records == store.recorded(CLUSTER)


def test_where_nothing_was_written_one_row_is_read(store: Store, lease: Lease) -> None:
    looks = Counting(store)
    store.write(lease, [PutRecord(record(name(number))) for number in range(40)])
    for _ in range(2):
        looks.look()
    assert looks.look() == 0
    assert looks.all_rows == 1
    store.write(lease, [PutRecord(record(name(3), generation=2))])
    assert looks.look() == 1
    assert looks.all_rows == 2


def test_identities_with_line_breaks_are_told_apart(store: Store, lease: Lease) -> None:
    """A stranger's label may have made them; no text is taken for another one's version."""
    odd = f"{name(1)}\n{name(2)}"
    store.write(lease, [PutRecord(record(name(1))), PutRecord(record(odd))])
    assert list(store.recorded(CLUSTER)) == list(read(store)) == [name(1), odd]
    for changes in ([PutRecord(record(odd, generation=2))], [ForgetRecord(name(1))], [ForgetRecord(odd)]):
        store.write(lease, changes)
        assert store.recorded(CLUSTER) == read(store)


def test_where_much_has_changed_all_is_read_at_once(
    store: Store, lease: Lease, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_cache, "_MOST_ONE_BY_ONE", 2)
    looks = Counting(store)
    looks.look()
    store.write(lease, [PutRecord(record(name(number))) for number in range(9)])
    assert looks.look() == 9
    store.write(lease, [PutRecord(record(name(number), generation=2)) for number in range(3)])
    assert looks.look() == 9
    store.write(lease, [PutRecord(record(name(number), generation=3)) for number in range(2)])
    assert looks.look() == 2
