"""Stores that are files: private, checked, and never lost by what replaces them."""

from __future__ import annotations

import contextlib
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from reconciler.store.database.address import StoreAddress
from reconciler.store.database.sqlite import CONNECTIONS
from reconciler.store.maintenance import files
from reconciler.store.store import Store
from reconciler.values.records import PutRecord
from schemas.problems.errors.store import StoreError
from tests.reconciler.store.samples import CLUSTER, NAME, full_record, record

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "repository" / ".bai" / "store.db") as opened:
        yield opened


def test_a_file_needs_nothing_of_a_server(store: Store) -> None:
    program = (
        "import sys; from pathlib import Path; from reconciler.store.store import Store; "
        f"store = Store.open(Path({str(store.path)!r})); store.set_meta('a', '1'); "
        "print([name for name in sys.modules if 'psycopg' in name or name.endswith('dialects.postgresql')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_a_file_that_another_one_fills_at_the_moment_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite's own waiting is none where a file is to have its log of writes."""
    path = tmp_path / "store.db"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        pauses: list[float] = []

        def pause(seconds: float) -> None:
            pauses.append(seconds)
            if len(pauses) == 3:
                other.execute("COMMIT")

        monkeypatch.setattr("tenacity.nap.time", SimpleNamespace(sleep=pause))
        Store.open(path).close()
        assert len(pauses) == 3
        assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)


WRITES = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], timeout=0)
try:
    connection.execute("BEGIN IMMEDIATE")
except sqlite3.OperationalError as error:
    print(error)
"""


def test_who_comes_too_late_to_make_the_file_leaves_the_locks_on_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that this process has are gone when any descriptor of the file is closed."""
    path = tmp_path / "store.db"
    with contextlib.ExitStack() as held:

        def too_early(_: Path) -> None:
            other = held.enter_context(contextlib.closing(sqlite3.connect(path, isolation_level=None)))
            other.execute("BEGIN IMMEDIATE")
            raise FileNotFoundError

        monkeypatch.setattr(files, "require_regular_path", too_early)
        files.create_store_file(StoreAddress(path=path))
        done = subprocess.run(
            [sys.executable, "-c", WRITES, path], capture_output=True, text=True, check=True
        )
        assert done.stdout == "database is locked\n"


def descriptors(store: Store) -> int:
    """How often this process has the store's files open."""
    found = 0
    for path in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found += str(path.readlink()).startswith(str(store.path))
    return found


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc")
def test_many_at_once_do_not_leave_more_open(store: Store) -> None:
    """As many connections as are allowed wait for a writer; the other threads wait for them."""
    with contextlib.closing(sqlite3.connect(store.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        threads = [threading.Thread(target=store.set_meta, args=(f"{n}", "1")) for n in range(40)]
        for thread in threads:
            thread.start()
        until = time.monotonic() + 60
        while descriptors(store) < 2 * CONNECTIONS and time.monotonic() < until:
            time.sleep(0.01)
        other.execute("COMMIT")
        for thread in threads:
            thread.join()
    assert store.read_metas([f"{n}" for n in range(40)]) == {f"{n}": "1" for n in range(40)}
    # One of the file and one of its journal each, those of `other` and the index of the journal.
    assert descriptors(store) <= 2 * CONNECTIONS + 3


def test_it_is_private(store: Store) -> None:
    store.write(store.acquire(CLUSTER, "me", 60, 0), [PutRecord(full_record())])
    for path in store.path.parent.glob("store.db*"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    assert (store.path.parent / ".gitignore").read_text() == "*\n"


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
    store.write(
        store.acquire(CLUSTER, "me", 60, 0), [PutRecord(record(f"Session/a/s{n}")) for n in range(200)]
    )
    store.close()
    data = bytearray(store.path.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    store.path.write_bytes(data)
    with pytest.raises(StoreError, match=r"restore a backup|malformed"):
        Store.open(store.path).recorded(CLUSTER)


def test_restoring_over_a_damaged_store_keeps_it_aside(store: Store, tmp_path: Path) -> None:
    store.write(store.acquire(CLUSTER, "me", 0, 0), [PutRecord(record())])
    copy = tmp_path / "copy.db"
    store.backup(copy)
    store.close()
    store.path.write_bytes(b"garbage" * 1000)
    Store.restore(store.path, copy, now=1)
    with Store.open(store.path) as again:
        assert again.recorded(CLUSTER) == {NAME: record()}
    assert store.path.with_name("store.db.damaged").read_bytes().startswith(b"garbage")


def test_restore_where_there_was_no_store(store: Store, tmp_path: Path) -> None:
    store.write(store.acquire(CLUSTER, "me", 0, 0), [PutRecord(record())])
    store.backup(tmp_path / "copy.db")
    Store.restore(tmp_path / "fresh" / "store.db", tmp_path / "copy.db", now=1)
    with Store.open(tmp_path / "fresh" / "store.db") as fresh:
        assert fresh.recorded(CLUSTER) == {NAME: record()}
