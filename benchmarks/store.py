"""What the store costs: the same work on a SQLite file and on a PostgreSQL server on this machine, in turn.

    python -m benchmarks.store --json result.json
    python -m benchmarks.store --url postgresql://...    a server of your own; its database must be empty

Milliseconds an operation, the tenth percentile, which other work disturbs least; every commit is on the disk
before it counts, on both. Without `--url` a server is started for it (Debian's `postgresql`), with the
settings it comes with.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.results import keep
from reconciler.store.database.address import StoreAddress
from reconciler.store.store import Store
from reconciler.values.records import Audit, Event, JournalEntry, Lease, PutRecord, Recorded

CLUSTER = "bench"
RESOURCES = 1000


@dataclass(frozen=True)
class Row:
    """Milliseconds on either, and how many times as long the server takes."""

    what: str
    sqlite: float
    postgresql: float
    ratio: float


def record(number: int, generation: int = 1) -> Recorded:
    document = {"spec": {"command": ["sleep", "inf"], "resources": {"cpu": 1, "memory": 1 << 30}}}
    name = f"Session/demo/s{number:05}"
    return Recorded(name, CLUSTER, generation, "d" * 16, document, "RUNNING", kernels=(f"s{number}-g1",))


def step(lease: Lease, number: int) -> list[PutRecord | Event | JournalEntry | Audit]:
    """What an apply writes down for one step: its end, a record, two transitions, an entry of the audit."""
    name = f"Session/demo/s{number % RESOURCES:05}"
    return [
        JournalEntry(f"a-{lease.token}", name, f"create:{number}", "create", f"k{number}", "done", 1.0),
        PutRecord(record(number % RESOURCES, number)),
        Event(name, "CREATING", "RUNNING", "created", 1.0),
        Event(name, "RUNNING", "RUNNING", "seen", 1.0),
        Audit("create", name, 1.0, "new", commit="c" * 40, plan="p" * 64),
    ]


class Work:
    """The operations, on one store."""

    def __init__(self, address: StoreAddress) -> None:
        self.address = address
        self.store = Store.open(address)
        self.lease = self.store.acquire(CLUSTER, "bench", 3600, time.time())
        self.store.write(self.lease, [PutRecord(record(number)) for number in range(RESOURCES)])
        self._number = 0

    def open(self) -> None:
        Store.open(self.address).close()

    def write_step(self) -> None:
        self._number += 1
        self.store.write(self.lease, step(self.lease, self._number))

    def write_many(self) -> None:
        self._number += 1
        self.store.write(self.lease, [PutRecord(record(number, self._number)) for number in range(RESOURCES)])

    def read_all(self) -> None:
        assert len(self.store.recorded(CLUSTER)) == RESOURCES

    def renew(self) -> None:
        self.lease = self.store.renew(self.lease, time.time())

    def take_and_give(self) -> None:
        self.store.release(self.store.acquire("other", "bench", 60, time.time()))

    def events(self) -> None:
        self.store.events(CLUSTER, limit=100)

    def audit(self) -> None:
        self.store.audit(CLUSTER, resource="Session/demo/s00001", limit=100)

    def hear(self) -> None:
        """From a write until somebody who listens knows."""
        told, ready = threading.Event(), threading.Event()

        def listen() -> None:
            with Store.open(self.address) as other:
                for _ in other.watch_changes(other.revisions(), stop=lambda: ready.set() or told.is_set()):
                    told.set()

        thread = threading.Thread(target=listen)
        thread.start()
        ready.wait()
        time.sleep(0.3)
        begin = time.perf_counter()
        self.write_step()
        told.wait()
        self.heard = time.perf_counter() - begin
        thread.join()


OPERATIONS: dict[str, tuple[Callable[[Work], None], int]] = {
    "open": (Work.open, 20),
    "write one step of an apply": (Work.write_step, 300),
    "write 1,000 records": (Work.write_many, 5),
    "read 1,000 records": (Work.read_all, 20),
    "take a lease and give it back": (Work.take_and_give, 100),
    "renew a lease": (Work.renew, 200),
    "the newest 100 events": (Work.events, 50),
    "the audit of one resource": (Work.audit, 50),
    "until another one hears of a write": (Work.hear, 10),
}


def measure(work: Work, do: Callable[[Work], None], times: int) -> float:
    """Milliseconds, the tenth percentile."""
    found = []
    for _ in range(times):
        begin = time.perf_counter()
        do(work)
        found.append(work.heard if do is Work.hear else time.perf_counter() - begin)
    return sorted(found)[len(found) // 10] * 1000


@contextlib.contextmanager
def server(url: str | None) -> Iterator[str]:
    if url is not None:
        yield url
        return
    from tests.lab.postgres import Server

    made = Server(settings={})
    try:
        yield made.database(empty=True)
    finally:
        made.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--url", help="an empty database of a PostgreSQL server that is there")
    parser.add_argument("--json", type=Path, help="write the figures here")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bai-bench-") as folder, server(given.url) as url:
        works = [Work(StoreAddress(path=Path(folder) / "store.db")), Work(StoreAddress.parse(url))]
        rows = []
        for what, (do, times) in OPERATIONS.items():
            sqlite, postgres = (measure(work, do, times) for work in works)
            rows.append(Row(what, round(sqlite, 2), round(postgres, 2), round(postgres / sqlite, 2)))
            print(
                f"{what:36} {sqlite:9.2f} ms {postgres:9.2f} ms  {postgres / sqlite:6.2f} times", flush=True
            )
        for work in works:
            work.store.close()
    keep([asdict(row) for row in rows], given.json)


if __name__ == "__main__":
    main()
