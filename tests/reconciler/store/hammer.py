"""Many processes that all want to write to one cluster, some of them slow, some killed: each takes the lease,
counts one on, and says so once the store has taken it."""

from __future__ import annotations

import contextlib
import random
import signal
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection

from tenacity import Retrying, retry_if_exception_type, wait_fixed

from reconciler.store.database.address import StoreAddress
from reconciler.store.store import Store
from reconciler.values.records import Event, PutRecord
from schemas.problems.errors.store import LeaseHeld, LeaseLost, StoreUnavailable
from tests.harness.clean_forks import FORKS
from tests.reconciler.store.samples import CLUSTER, NAME, record

TTL = 0.05


class Writer:
    """One of these processes; it goes on until it is told to end, or nobody is there who could tell."""

    def __init__(self, address: StoreAddress, seed: int) -> None:
        self._said, said = FORKS.Pipe(duplex=False)
        over, self._over = FORKS.Pipe(duplex=False)
        self._process = FORKS.Process(target=_write, args=(address, seed, said, over))
        self._process.start()
        said.close()
        over.close()

    def has_written(self) -> bool:
        return self._said.poll()

    def kill(self) -> None:
        self._process.kill()

    def tell_to_end(self) -> None:
        self._over.close()

    def ended(self) -> list[tuple[int, int]]:
        """(token, number) of every write that it was told is done."""
        written = []
        with self._said, contextlib.suppress(EOFError):
            while True:
                written.append(self._said.recv())
        self._process.join()
        assert self._process.exitcode in (0, -signal.SIGKILL)
        return written


@contextlib.contextmanager
def writers(address: StoreAddress, seeds: range) -> Iterator[list[Writer]]:
    """One for each of `seeds`, and none afterwards, whatever became of the list meanwhile."""
    made: list[Writer] = []
    try:
        for seed in seeds:
            made.append(Writer(address, seed))
        yield made
    finally:
        for each in made:
            each.tell_to_end()


def _write(address: StoreAddress, seed: int, said: Connection, over: Connection) -> None:
    with contextlib.suppress(StoreUnavailable):
        _work(address, random.Random(seed), f"child {seed}", over.poll, said.send)


def _work(
    address: StoreAddress,
    rng: random.Random,
    holder: str,
    over: Callable[[], bool],
    say: Callable[[tuple[int, int]], None],
) -> None:
    with _opened(address, over) as store:
        while not over():
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


def _opened(address: StoreAddress, over: Callable[[], bool]) -> Store:
    retrying = Retrying(
        retry=retry_if_exception_type(StoreUnavailable),
        stop=lambda _: over(),
        wait=wait_fixed(0.01),
        reraise=True,
    )
    return retrying(Store.open, address)
