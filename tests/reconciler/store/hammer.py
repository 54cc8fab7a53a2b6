"""Many processes that all want to write to one cluster, some of them slow, some killed: each child of `swarm`
takes the lease, counts one on, and says so once the store has taken it."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from reconciler.store.database.address import StoreAddress
from reconciler.store.store import Store
from reconciler.values.records import Event, PutRecord
from schemas.problems.errors.store import LeaseHeld, LeaseLost, StoreUnavailable
from tests.reconciler.store.samples import CLUSTER, NAME, record

TTL = 0.05


@dataclass
class Child:
    """`said`: (token, number) of every write that it was told is done."""

    pid: int
    reader: int

    def ended(self) -> list[tuple[int, int]]:
        with os.fdopen(self.reader) as lines:
            said = [tuple(json.loads(line)) for line in lines if line.endswith("\n")]
        _, status = os.waitpid(self.pid, 0)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        assert killed or os.waitstatus_to_exitcode(status) == 0
        return said


def child(address: StoreAddress, seed: int, seconds: float) -> Child:
    reader, writer = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writer)
        return Child(pid, reader)
    code = 1
    try:
        os.close(reader)
        _work(address, random.Random(seed), f"child {seed}", seconds, lambda line: _say(writer, line))
        code = 0
    finally:
        os._exit(code)


def _say(writer: int, line: object) -> None:
    os.write(writer, (json.dumps(line) + "\n").encode())


def _work(
    address: StoreAddress, rng: random.Random, holder: str, seconds: float, say: Callable[[object], None]
) -> None:
    with _opened(address) as store:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with contextlib.suppress(LeaseHeld, LeaseLost, StoreUnavailable):
                take = store.steal if rng.random() < 0.1 else store.acquire
                lease = take(CLUSTER, holder, TTL, time.time())
                for _ in range(rng.randint(1, 3)):
                    known = store.recorded(CLUSTER).get(NAME)
                    number = known.generation + 1 if known else 1
                    if rng.random() < 0.1:
                        time.sleep(TTL * 1.5)
                    news = [
                        PutRecord(record(generation=number)),
                        Event(NAME, str(lease.token), str(number), "", 0.0),
                    ]
                    store.write(lease, news)
                    say((lease.token, number))
                if rng.random() < 0.7:
                    store.release(lease)
            time.sleep(rng.uniform(0, 0.003))


def _opened(address: StoreAddress) -> Store:
    while True:
        with contextlib.suppress(StoreUnavailable):
            return Store.open(address)
        time.sleep(0.01)
