"""Statements are compiled once for all stores of a process. Nearly every test has a store of its own, and an
engine forgets what it has compiled: a tenth of what these tests compute. Nor do these stores wait for the
disk: what a killed process leaves is the same, only what a machine without power leaves is not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event

from reconciler.store.database import engine as engines


class _Compiled(dict[tuple[Any, ...], Any]):
    """What SQLAlchemy keeps by dialect and statement. Each engine has a dialect of its own, which for
    files are all alike."""

    def get(self, key: tuple[Any, ...], default: Any = None) -> Any:
        return super().get(_without_its_engine(key), default)

    def __setitem__(self, key: tuple[Any, ...], compiled: Any) -> None:
        super().__setitem__(_without_its_engine(key), compiled)


def _without_its_engine(key: tuple[Any, ...]) -> tuple[Any, ...]:
    dialect, *statement = key
    return (type(dialect), *statement)


def _do_not_wait_for_the_disk(connection: Any, record: object) -> None:
    connection.execute("PRAGMA synchronous = OFF")


@pytest.fixture(autouse=True, scope="session")
def compiled_once() -> Iterator[None]:
    """Of every store in a file that is opened in this process."""
    kept, own = _Compiled(), engines.sqlite_engine

    def sqlite_engine(path: Path) -> Engine:
        made = own(path)
        event.listen(made, "connect", _do_not_wait_for_the_disk)
        return made.execution_options(compiled_cache=kept)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engines, "sqlite_engine", sqlite_engine)
        yield
