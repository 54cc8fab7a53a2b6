"""The engine of a store in a database of a PostgreSQL server. What libpq knows (service files, `~/.pgpass`,
several hosts, TLS) works here as well."""

from __future__ import annotations

import contextlib
import select
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.exc import DisconnectionError

from reconciler.secrets.operator_values import resolve_reference
from schemas.problems.errors.plan import SecretMissing
from schemas.problems.errors.store import StoreError

if TYPE_CHECKING:
    import psycopg

    from reconciler.store.database.address import StoreAddress

_DEFAULTS = {
    "application_name": "bai", "connect_timeout": 10, "keepalives_idle": 15, "keepalives_interval": 5,
    "keepalives_count": 3, "tcp_user_timeout": 30_000, "client_encoding": "utf8",
}  # fmt: skip
"""A server that is gone is noticed within half a minute; what a URL says wins."""
_SESSION_SETTINGS = "SET lock_timeout = '30s'; SET idle_in_transaction_session_timeout = '60s'"
"""A writer that is stopped in the middle holds the others up for a minute at most."""


def postgres_engine(address: StoreAddress) -> Engine:
    """Raises StoreError when the driver cannot be loaded."""
    try:
        import psycopg  # noqa: F401
    except ImportError as error:
        raise StoreError(store=address, why=f"psycopg cannot be loaded: {error}") from error
    engine = create_engine(
        "postgresql+psycopg://", creator=lambda: connect(address), isolation_level="READ COMMITTED",
        use_native_hstore=False, pool_size=4, max_overflow=16, pool_timeout=30,
    )  # fmt: skip
    event.listen(engine, "checkout", _check_connection)
    return engine


def _check_connection(connection: Any, _: object, __: object) -> None:
    """A connection that broke while nobody used it is found by its socket, which costs no round trip: a
    server that ends one says so."""
    import psycopg

    if not connection.closed:
        socket = select.poll()
        socket.register(connection.fileno(), select.POLLIN)
        if not socket.poll(0):
            return
        with contextlib.suppress(psycopg.Error):
            connection.execute("SELECT 1")
            connection.rollback()
            return
    raise DisconnectionError


def connect(address: StoreAddress, *, autocommit: bool = False) -> psycopg.Connection[Any]:
    """One connection; its `search_path` is the store's schema, where it has one of its own.

    Raises psycopg.Error, or StoreError where the address itself is wrong.
    """
    import psycopg

    connection = psycopg.connect(_connection_parameters(address), autocommit=True)
    try:
        if connection.info.parameter_status("server_encoding") != "UTF8":
            raise StoreError(store=address, why="the database's encoding is not UTF8")
        connection.execute(_SESSION_SETTINGS)
        if address.schema:
            connection.execute(
                "SELECT set_config('search_path', %s, false)", [_quote_identifier(address.schema)]
            )
        connection.autocommit = autocommit
    except BaseException:
        connection.close()
        raise
    return connection


def _connection_parameters(address: StoreAddress) -> str:
    """The URL as libpq's key words, with the password that it refers to."""
    import psycopg
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    try:
        given: dict[str, Any] = {**_DEFAULTS, **conninfo_to_dict(address.plain_url)}
    except psycopg.ProgrammingError as error:
        # Said by libpq about the whole URL; what may be a password in it is not repeated.
        told = str(error).strip()
        secret = urlsplit(address.url).password
        raise StoreError(store=address, why=told.replace(secret, "***") if secret else told) from None
    if address.password_from:
        given["password"] = _password(address)
    return make_conninfo("", **given)


def _password(address: StoreAddress) -> str:
    try:
        return resolve_reference(address.password_from)
    except SecretMissing as error:
        raise StoreError(store=address, why=f"its password: {error.message}", hint=error.hint) from None


def _quote_identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
