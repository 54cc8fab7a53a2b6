"""What a database says, turned into a `StoreError` a person can act on."""

from __future__ import annotations

import contextlib
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from schemas.problems import disk_space
from schemas.problems.errors.store import StoreError, StoreUnavailable

_CONFLICTS = frozenset({"40001", "40P01"})
"""SQLSTATE: serialization failure, deadlock."""
_TRANSIENT = ("08", "53", "57P", "40", "55P03", "25P03")
"""SQLSTATE classes that pass: connection, resources, shutdown, conflicts, waited too long."""
_TRANSLATED = (DBAPIError, sqlite3.Error, OSError, ValueError, PoolTimeout)
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
_ENVIRONMENT_ERRORS = ("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_NOMEM", "SQLITE_BUSY", "SQLITE_LOCKED")
_PERMANENT_MESSAGES = (
    "authentication failed",
    "no password supplied",
    "does not exist",
    "no pg_hba.conf entry",
)
"""What servers say at the door and say again next time."""


@contextlib.contextmanager
def translate_errors(store: object) -> Iterator[None]:
    """Raise StoreError for what the database says; StoreUnavailable where trying again may help."""
    try:
        yield
    except Exception as error:
        if not isinstance(error, (*_TRANSLATED, *_driver_errors())):
            raise
        kind = StoreUnavailable if _is_transient(error) else StoreError
        why, hint = _message(error), _hint(error)
        if (file := _store_file(store)) and _is_full(error, file):
            why, hint = f"{why}: {disk_space.describe_free_space(file)}", disk_space.HINT
        raise kind(store=store, why=why, hint=hint) from error


def _store_file(store: object) -> Path | None:
    found = store if isinstance(store, Path) else getattr(store, "path", None)
    return found if isinstance(found, Path) else None


def _is_full(error: BaseException, file: Path) -> bool:
    """SQLite says of a log or an index that does not fit only that there was an error."""
    name = getattr(_driver_error(error), "sqlite_errorname", "")
    vague = name.startswith(("SQLITE_IOERR", "SQLITE_CANTOPEN"))
    return (
        disk_space.is_disk_full(error) or name == "SQLITE_FULL" or (vague and disk_space.is_nearly_full(file))
    )


def is_environment_failure(error: StoreError) -> bool:
    """Whether not the store but what it stands on has failed: the disk, its room, the memory."""
    cause = error.__cause__
    name = getattr(_driver_error(cause), "sqlite_errorname", "") if cause is not None else ""
    return name.startswith(_ENVIRONMENT_ERRORS) and not name.startswith("SQLITE_IOERR_SHORT")


def is_conflict(error: DBAPIError) -> bool:
    """Whether the transaction lost against another one and may simply be done again."""
    return _sqlstate(error) in _CONFLICTS


def _is_transient(error: BaseException) -> bool:
    if isinstance(error, PoolTimeout):
        return True
    cause, told = _driver_error(error), _message(error)
    if isinstance(cause, sqlite3.Error):
        return isinstance(cause, sqlite3.OperationalError) and ("locked" in told or "busy" in told)
    if state := _sqlstate(error):
        return state.startswith(_TRANSIENT)
    at_the_door = type(cause).__name__ in ("OperationalError", "InterfaceError")
    return at_the_door and not any(words in told for words in _PERMANENT_MESSAGES)


def _driver_errors() -> tuple[type[Exception], ...]:
    """What the server's driver raises by itself, where it is loaded."""
    if "psycopg" not in sys.modules:
        return ()
    from psycopg import Error

    return (Error,)


def _driver_error(error: BaseException) -> BaseException:
    return error.orig or error if isinstance(error, DBAPIError) else error


def _sqlstate(error: BaseException) -> str:
    return getattr(_driver_error(error), "sqlstate", None) or ""


def _message(error: BaseException) -> str:
    cause = _driver_error(error)
    told = cause.strerror if isinstance(cause, OSError) and cause.strerror else str(cause)
    return " ".join(told.split())


def _hint(error: BaseException) -> str:
    told = _message(error)
    return next((hint for word, hint in _HINTS.items() if word in told), "")
