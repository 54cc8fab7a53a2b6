"""Hear of what others write: the server tells (LISTEN), a file is looked at (a few microseconds, five times a
second)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from sqlalchemy import Engine

from reconciler.store import leases
from reconciler.store.database.database_errors import translate_errors
from reconciler.store.database.engine import is_server, query_connection

if TYPE_CHECKING:
    from reconciler.store.database.address import StoreAddress

POLL_INTERVAL = 0.2
"""Seconds between two looks at a file, and most seconds until `stop` is asked again."""
RECHECK_INTERVAL = 10.0
"""Seconds after which a server is asked though it told nothing: what it told may have been lost."""
CHANNEL = "bai_changes"


def watch_changes(
    engine: Engine, address: StoreAddress, since: Mapping[str, int] | None, stop: Callable[[], bool]
) -> Iterator[dict[str, int]]:
    """See `Store.watch_changes`."""
    wait = _listen_to_server if is_server(engine) else _poll_file
    known = dict(since) if since is not None else None
    for _ in wait(engine, address, stop):
        with query_connection(engine, address) as connection:
            found = leases.revisions(connection)
        if known is None:
            known = found
        news = {cluster: number for cluster, number in found.items() if number != known.get(cluster)}
        if news:
            known = found
            yield news


def _poll_file(engine: Engine, address: StoreAddress, stop: Callable[[], bool]) -> Iterator[None]:
    """Now, and whenever somebody has committed to the file."""
    with translate_errors(address), engine.connect() as connection:
        # Asked outside of transactions, which would see the file as it was at their begin.
        cursor = connection.connection.driver_connection
        assert cursor is not None
        last: object = None
        while not stop():
            version = cursor.execute("PRAGMA data_version").fetchone()
            if version != last:
                last = version
                yield
            else:
                time.sleep(POLL_INTERVAL)


def _listen_to_server(engine: Engine, address: StoreAddress, stop: Callable[[], bool]) -> Iterator[None]:
    """Now, and whenever the server tells of this schema."""
    from reconciler.store.database.postgres import connect

    with translate_errors(address):
        connection = connect(address, autocommit=True)
        try:
            schema = connection.execute("SELECT current_schema()").fetchone()[0]  # type: ignore[index]
            connection.execute(f"LISTEN {CHANNEL}")
            yield
            heard = time.monotonic()
            while not stop():
                told = list(connection.notifies(timeout=POLL_INTERVAL, stop_after=1))
                ours = any(each.payload.partition(" ")[0] == schema for each in told)
                if ours or time.monotonic() - heard > RECHECK_INTERVAL:
                    heard = time.monotonic()
                    yield
        finally:
            connection.close()
