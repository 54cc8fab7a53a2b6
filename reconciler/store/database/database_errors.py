"""What a database says, turned into a `StoreError` a person can act on."""

from __future__ import annotations

import contextlib
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from schemas.problems import room
from schemas.problems.errors import StoreError, StoreUnavailable

_CONFLICTS = frozenset({"40001", "40P01"})
"""SQLSTATE: serialization failure, deadlock."""
_TRANSIENT = ("08", "53", "57P", "40", "55P03", "25P03")
"""SQLSTATE classes that pass: connection, resources, shutdown, conflicts, waited too long."""
_KNOWN = (DBAPIError, sqlite3.Error, OSError, ValueError, PoolTimeout)
_HINTS = {
    "locked": "another process is writing to it; try again",
    "busy": "another process is writing to it; try again",
    **dict.fromkeys(
        ("malformed", "not a database", "must be a regular file", "no such table", "no such column"),
        "`bai state rebuild` sets it aside and makes a new one from what runs; or restore a backup with"
        " `bai state restore`",
    ),
    "authentication failed": "passwords: passwordFrom=env:NAME or file:/path in the URL, PGPASSWORD,"
    " ~/.pgpass",
    "no password supplied": "passwords: passwordFrom=env:NAME or file:/path in the URL, PGPASSWORD,"
    " ~/.pgpass",
    "permission denied": "the store's user must own its database or schema",
    "append-only": "nothing is ever removed from the audit",
}
_OUTER = ("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_NOMEM", "SQLITE_BUSY", "SQLITE_LOCKED")
_LASTING = ("authentication failed", "no password supplied", "does not exist", "no pg_hba.conf entry")
"""What servers say at the door and say again next time."""


@contextlib.contextmanager
def complaints(store: object) -> Iterator[None]:
    """Raise StoreError for what the database says; StoreUnavailable where trying again may help."""
    try:
        yield
    except Exception as error:
        if not isinstance(error, (*_KNOWN, *_driver())):
            raise
        kind = StoreUnavailable if _passes(error) else StoreError
        why, hint = _why(error), _hint(error)
        if (file := _file(store)) and _is_full(error, file):
            why, hint = f"{why}: {room.told(file)}", room.HINT
        raise kind(store=store, why=why, hint=hint) from error


def _file(store: object) -> Path | None:
    found = store if isinstance(store, Path) else getattr(store, "path", None)
    return found if isinstance(found, Path) else None


def _is_full(error: BaseException, file: Path) -> bool:
    """SQLite says of a log or an index that does not fit only that there was an error."""
    name = getattr(_cause(error), "sqlite_errorname", "")
    vague = name.startswith(("SQLITE_IOERR", "SQLITE_CANTOPEN"))
    return room.is_full(error) or name == "SQLITE_FULL" or (vague and room.has_little(file))


def is_out_of_order(error: StoreError) -> bool:
    """Whether not the store but what it stands on has failed: the disk, its room, the memory."""
    cause = error.__cause__
    name = getattr(_cause(cause), "sqlite_errorname", "") if cause is not None else ""
    return name.startswith(_OUTER) and not name.startswith("SQLITE_IOERR_SHORT")


def is_conflict(error: DBAPIError) -> bool:
    """Whether the transaction lost against another one and may simply be done again."""
    return _state(error) in _CONFLICTS


def _passes(error: BaseException) -> bool:
    if isinstance(error, PoolTimeout):
        return True
    cause, told = _cause(error), _why(error)
    if isinstance(cause, sqlite3.Error):
        return isinstance(cause, sqlite3.OperationalError) and ("locked" in told or "busy" in told)
    if state := _state(error):
        return state.startswith(_TRANSIENT)
    at_the_door = type(cause).__name__ in ("OperationalError", "InterfaceError")
    return at_the_door and not any(words in told for words in _LASTING)


def _driver() -> tuple[type[Exception], ...]:
    """What the server's driver raises by itself, where it is loaded."""
    if "psycopg" not in sys.modules:
        return ()
    from psycopg import Error

    return (Error,)


def _cause(error: BaseException) -> BaseException:
    return error.orig or error if isinstance(error, DBAPIError) else error


def _state(error: BaseException) -> str:
    return getattr(_cause(error), "sqlstate", None) or ""


def _why(error: BaseException) -> str:
    cause = _cause(error)
    told = cause.strerror if isinstance(cause, OSError) and cause.strerror else str(cause)
    return " ".join(told.split())


def _hint(error: BaseException) -> str:
    told = _why(error)
    return next((hint for word, hint in _HINTS.items() if word in told), "")
