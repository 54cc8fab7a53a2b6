"""Where a simulated life keeps its store: a file, or a database of a server. Either may be lost, or replaced
by an old copy, without anybody being told."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Protocol

from sqlalchemy import Engine

from reconciler.store.database.address import StoreAddress
from reconciler.store.database.engine import open_engine, read_transaction, write_transaction
from reconciler.store.database.sqlite import sqlite_engine
from reconciler.store.maintenance import transfer
from reconciler.store.store import Store


class Disk(Protocol):
    """`engine` is opened once; copies are SQLite files."""

    address: StoreAddress
    engine: Engine

    def copy(self, target: Path) -> None: ...

    def replace(self, source: Path) -> None: ...


class FileDisk:
    """One SQLite file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.address = StoreAddress(path=path)
        self.engine = open_engine(self.address)

    def copy(self, target: Path) -> None:
        shutil.copyfile(self.path, target)

    def replace(self, source: Path) -> None:
        for side in ("-wal", "-shm"):
            self.path.with_name(self.path.name + side).unlink(missing_ok=True)
        shutil.copyfile(source, self.path)


class ServerDisk:
    """One database."""

    def __init__(self, url: str) -> None:
        self.address = StoreAddress.parse(url)
        self.engine = open_engine(self.address)

    def copy(self, target: Path) -> None:
        with Store.open(self.address) as store:
            store.backup(target)

    def replace(self, source: Path) -> None:
        copy = sqlite_engine(source)
        try:
            with (
                write_transaction(self.engine, self.address) as here,
                read_transaction(copy, source) as there,
            ):
                transfer.replace_contents(here, there)
        finally:
            copy.dispose()
