"""Connections and transactions, the same over both engines."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError

from reconciler.store.database.database_errors import is_conflict, translate_errors
from reconciler.store.database.questions import Ask, Row, plain_parameters, plain_rows
from reconciler.store.database.sqlite import BEGIN, IMMEDIATE, sqlite_engine

if TYPE_CHECKING:
    from reconciler.store.database.address import StoreAddress

RETRY_DELAYS = (0.01, 0.03, 0.1, 0.3, 1.0, 1.0)
"""Seconds to wait, more or less, before a transaction that lost to another one is tried again."""
T = TypeVar("T")


def open_engine(address: StoreAddress) -> Engine:
    """Nothing is connected yet. The server's driver is loaded only for a server."""
    if address.path is not None:
        return sqlite_engine(address.path)
    from reconciler.store.database.postgres import postgres_engine

    return postgres_engine(address)


def is_server(connection: Connection | Engine) -> bool:
    return connection.dialect.name == "postgresql"


def asking(connection: Connection) -> Ask:
    """The connection as questions ask it."""

    def ask(sql: str, **parameters: object) -> Sequence[Row]:
        found = connection.execute(text(sql), plain_parameters(parameters))
        return plain_rows(tuple(found.keys()), found)

    return ask


@contextlib.contextmanager
def read_transaction(engine: Engine, store: object) -> Iterator[Connection]:
    """One consistent read: everything in it sees the same moment."""
    if is_server(engine):
        engine = engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
    with translate_errors(store), engine.begin() as connection:
        yield connection


@contextlib.contextmanager
def query_connection(engine: Engine, store: object) -> Iterator[Connection]:
    """For one question: the server needs no transaction for it, and no round trips to begin and end one."""
    if is_server(engine):
        engine = engine.execution_options(isolation_level="AUTOCOMMIT")
    with translate_errors(store), engine.begin() as connection:
        yield connection


@contextlib.contextmanager
def write_transaction(engine: Engine, store: object) -> Iterator[Connection]:
    """One write transaction; rolled back when the body raises.

    SQLite's is exclusive from its start. The server's waits for others where it takes a lease's row.
    """
    with translate_errors(store), _begin_write(engine) as connection:
        yield connection


def run_transaction(engine: Engine, store: object, do: Callable[[Connection], T]) -> T:
    """What `do` gives, once its transaction has been committed. It is done again, from its start, when it
    lost against another one, or its connection broke before there was anything to commit."""
    # Only who writes loads it: commands that read answer sooner.
    from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_chain, wait_random

    complete = False

    def once() -> T:
        nonlocal complete
        complete = False
        with _begin_write(engine) as connection:
            result = do(connection)
            complete = True
        return result

    def may_pass(error: BaseException) -> bool:
        # Once it was to be committed, nobody knows whether it is.
        return isinstance(error, DBAPIError) and (
            is_conflict(error) or (error.connection_invalidated and not complete)
        )

    retrying = Retrying(
        retry=retry_if_exception(may_pass),
        stop=stop_after_attempt(len(RETRY_DELAYS) + 1),
        wait=wait_chain(*(wait_random(delay * 0.5, delay * 1.5) for delay in RETRY_DELAYS)),
        reraise=True,
    )
    with translate_errors(store):
        return retrying(once)


@contextlib.contextmanager
def _begin_write(engine: Engine) -> Iterator[Connection]:
    with engine.connect() as connection, connection.execution_options(**{BEGIN: IMMEDIATE}).begin():
        yield connection
