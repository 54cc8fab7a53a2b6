"""A file that is asked without what only writing needs answers as the store does, or is left to it."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from reconciler.store.database.address import StoreAddress
from reconciler.store.database.revision import MOVED_KEY
from reconciler.store.reader import FileReader, StoreReader, open_file_reader
from reconciler.store.store import Store
from reconciler.values.records import Audit, Contact, Event, PutRecord
from schemas.problems.errors.store import StoreError
from tests.reconciler.store.samples import CLUSTER, NAME, full_record

STRANGE = "a\0b \udcff c"
"""Text that no engine holds as it is."""
QUESTIONS: dict[str, Callable[[StoreReader], Any]] = {
    "recorded": lambda store: store.recorded(CLUSTER),
    "of a kind": lambda store: store.recorded(CLUSTER, "Session"),
    "identities": lambda store: store.recorded_identities(CLUSTER),
    "all records": lambda store: store.cluster_records(CLUSTER),
    "contacts": lambda store: store.contacts(CLUSTER),
    "samples": lambda store: store.samples(CLUSTER),
    "no samples": lambda store: store.samples(CLUSTER, ()),
    "accounts": lambda store: store.accounts(CLUSTER),
    "provisioning": lambda store: store.provision_records(CLUSTER),
    "orders": lambda store: store.rollout_orders(CLUSTER),
    "events": lambda store: store.events(CLUSTER),
    "newest event": lambda store: store.events(CLUSTER, limit=1),
    "events of one": lambda store: store.events(CLUSTER, resource=STRANGE),
    "audit": lambda store: store.audit(CLUSTER, actor="a", since=0, until=1e12, limit=5),
    "audited": lambda store: store.audited_resources(CLUSTER),
    "meta": lambda store: (store.meta("key"), store.meta("none")),
    "metas": lambda store: store.read_metas(["key", STRANGE]),
}


@pytest.fixture
def address(tmp_path: Path) -> StoreAddress:
    return StoreAddress(path=tmp_path / "store.db")


@pytest.fixture
def store(address: StoreAddress) -> Iterator[Store]:
    with Store.open(address) as store:
        lease = store.acquire(CLUSTER, "a", 60, 0.0)
        store.write(
            lease,
            [
                PutRecord(full_record()),
                Contact("n1", 1.0, 1e15, STRANGE),
                Event(NAME, "", "PENDING", "new", at=-5.0),
                Event(STRANGE, "PENDING", "RUNNING", STRANGE, at=1e15),
                Audit("create", NAME, 3.0, "new", "ada"),
            ],
        )
        store.set_meta("key", STRANGE)
        yield store


@pytest.mark.parametrize("ask", QUESTIONS.values(), ids=list(QUESTIONS))
def test_it_answers_as_the_store_does(
    store: Store, address: StoreAddress, ask: Callable[[StoreReader], Any]
) -> None:
    reader = open_file_reader(address)
    assert isinstance(reader, FileReader)
    assert ask(reader) == ask(store)
    reader.close()


def test_what_is_not_this_programs_newest_is_left_to_the_store(store: Store, address: StoreAddress) -> None:
    store.set_meta(MOVED_KEY, "elsewhere")
    assert open_file_reader(address) is None
    store.forget_meta(MOVED_KEY)
    assert address.path is not None
    with sqlite3.connect(address.path) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '0001'")
    assert open_file_reader(address) is None


def test_so_is_what_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("no database")
    os.mkfifo(tmp_path / "fifo.db")
    for name in ("text.db", "fifo.db", "none.db"):
        assert open_file_reader(StoreAddress(path=tmp_path / name)) is None
    assert open_file_reader(StoreAddress(url="postgresql://nowhere/x")) is None
    assert not (tmp_path / "none.db").exists()


def test_a_table_that_is_gone_is_an_error_of_the_store(store: Store, address: StoreAddress) -> None:
    reader = open_file_reader(address)
    assert reader is not None and address.path is not None
    with sqlite3.connect(address.path) as connection:
        connection.execute("DROP TABLE events")
    with pytest.raises(StoreError, match="no such table"):
        reader.events(CLUSTER)


WRITES = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
with connection:
    connection.execute("INSERT OR REPLACE INTO meta VALUES ('by another process', 'yes')")
connection.close()
"""


def test_whoever_reads_keeps_its_locks_when_the_store_is_opened_to_write(tmp_path: Path) -> None:
    """Closing a descriptor of the file would drop them, and the next process that goes would take the log of
    writes away, since nobody seems to use it."""
    path = tmp_path / "store.db"
    Store.open(path).close()
    reader = open_file_reader(StoreAddress.choose(tmp_path, path))
    assert reader is not None and reader.meta("by another process") is None
    with Store.open(path) as store:
        store.set_meta("here", "yes")
        again = open_file_reader(StoreAddress.choose(tmp_path, path))
        assert again is not None
        subprocess.run([sys.executable, "-c", WRITES, path], check=True)
        assert Path(f"{path}-wal").exists()
        for one in (reader, again, store):
            assert one.read_metas(["here", "by another process"]) == {
                "here": "yes", "by another process": "yes",
            }  # fmt: skip
        store.set_meta("here", "still")
        assert reader.meta("here") == again.meta("here") == "still"
        again.close()
    reader.close()
