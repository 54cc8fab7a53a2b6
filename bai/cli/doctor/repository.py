"""The repository at hand: documents, store, lease, room on the disks, fresh schemas."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from bai.cli.doctor.check import Finding, Status

if TYPE_CHECKING:
    from bai.settings import Settings
    from reconciler.store.database.address import StoreAddress
    from reconciler.store.store import Store

LEAST, LITTLE = 64 << 20, 1 << 30
"""Bytes free on a disk: below the first nothing can be written down, below the second logs may fill it."""


def documents(settings: Settings) -> Iterator[Finding]:
    from bai.render.humanize import plural
    from schemas.problems.errors.base import BaiError
    from schemas.problems.errors.repository import InvalidRepository

    try:
        repository = settings.repository()
    except InvalidRepository as error:
        yield Finding("documents", "failed", error.message, "`bai validate` lists them")
    except BaiError as error:
        yield Finding("documents", "failed", error.message)
    else:
        if repository.resources:
            yield Finding("documents", "ok", f"{plural(len(repository.resources), 'resource')}, all valid")
        else:
            yield Finding("documents", "skipped", "there are none here", "`bai init` writes first ones")


def store(settings: Settings) -> Iterator[Finding]:
    """Opened and read; one that is not there yet is not made."""
    from reconciler.store.store import Store
    from schemas.problems.errors.store import StoreError

    try:
        address = store_address(settings)
        if address.path is not None and not address.path.exists():
            yield Finding("store", "skipped", f"{address} is not there yet: the first plan makes it")
            return
        with Store.open(address) as opened:
            yield from _store_findings(opened, address)
    except StoreError as error:
        hint = "`bai state restore` puts a copy back; without one, `bai state rebuild`"
        yield Finding("store", "failed", error.message, error.hint or hint)


def _store_findings(opened: Store, path: StoreAddress) -> Iterator[Finding]:
    from bai.render.humanize import iso_time, plural

    count = sum(len(opened.recorded(cluster)) for cluster in opened.clusters())
    yield Finding("store", "ok", f"{path}: {plural(count, 'resource')} recorded")
    for cluster in opened.clusters():
        lease = opened.lease(cluster)
        if lease is None:
            yield Finding(f"lease {cluster}", "ok", "nobody is applying")
        else:
            until = iso_time(lease.expires)
            yield Finding(f"lease {cluster}", "warning", f"{lease.holder} holds it until {until}")
        steps = opened.open_intents(cluster)
        if steps:
            message = f"of {plural(len(steps), 'step')} it is not known whether they were done"
            yield Finding(f"journal {cluster}", "warning", message, "the next apply finds out")


def store_address(settings: Settings) -> StoreAddress:
    """Where the store is, or would be; documents that cannot be read do not say. Raises StoreError."""
    from reconciler.store.database.address import StoreAddress
    from schemas.problems.errors.base import BaiError
    from schemas.problems.errors.store import StoreError

    try:
        with settings.reading_workspace() as workspace:
            return workspace.state
    except StoreError:
        raise
    except BaiError:
        return StoreAddress.choose(settings.directory, settings.state)


def disks(settings: Settings) -> Iterator[Finding]:
    from bai.render.humanize import size
    from providers.process.options import default_root
    from schemas.problems.errors.store import StoreError

    folder = settings.directory / ".bai"
    with contextlib.suppress(StoreError):
        folder = store_address(settings).path or folder
    for name, path in (("disk of the store", folder), ("disk of sessions", default_root())):
        there = _nearest_folder(path)
        free = shutil.disk_usage(there).free
        status: Status = "failed" if free < LEAST else "warning" if free < LITTLE else "ok"
        if not os.access(there, os.W_OK):
            yield Finding(name, "failed", f"{there} cannot be written")
        else:
            yield Finding(name, status, f"{size(free)} free at {there}")


def _nearest_folder(path: Path) -> Path:
    """The nearest folder above that is there."""
    path = path.absolute()
    while not path.is_dir():
        path = path.parent
    return path


def schemas() -> Iterator[Finding]:
    from schemas.loading.json_schema import stale_files

    old = stale_files()
    if old:
        yield Finding("schemas", "failed", f"older than the models: {', '.join(old)}", "`make generate`")
    else:
        yield Finding("schemas", "ok", "the published JSON Schemas are those of the models")
