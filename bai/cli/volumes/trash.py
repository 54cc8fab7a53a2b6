"""Deleted volumes, found again in the trash of their storage hosts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from bai.cli.output import print_json, print_table
from bai.settings import Settings

if TYPE_CHECKING:
    from providers.storage.base import Storage, TrashedVolume, TrashLocation
    from reconciler.values.state import Desired
    from schemas.kinds.cluster import Cluster


def require_storage(storage: Storage | None, cluster: Cluster) -> Storage:
    """Raises CommandError where volumes are not folders of nodes."""
    from schemas.problems.errors.command import CommandError

    if storage is None:
        provider = cluster.spec.provider
        raise CommandError(why=f"with provider {provider}, volumes are not folders that bai looks after")
    return storage


def trash_entries(desired: Desired, storage: Storage) -> Iterator[tuple[TrashLocation, TrashedVolume]]:
    """Everything in the trash of every storage host, oldest first within each."""
    from reconciler.values.volume_folders import trash_locations

    for place in trash_locations(desired):
        for entry in storage.trashed(place):
            yield place, entry


def find_deleted(desired: Desired, storage: Storage, name: str) -> tuple[TrashLocation, TrashedVolume]:
    """By entry, identity, `project/name` or name. Raises NoSuchResource, AmbiguousName."""
    from schemas.problems.errors.command import AmbiguousName, NoSuchResource

    found = [
        (place, entry)
        for place, entry in trash_entries(desired, storage)
        if name in (entry.entry, entry.volume, entry.volume.partition("/")[2], entry.volume.split("/")[-1])
    ]
    if not found:
        hint = "`bai volumes trash` lists deleted volumes"
        raise NoSuchResource(what="deleted volume", name=name, hint=hint)
    if len(found) > 1:
        several = ", ".join(entry.entry for _, entry in found)
        raise AmbiguousName(name=name, candidates=several, hint="name the entry")
    return found[0]


def list_trash(settings: Settings, desired: Desired, storage: Storage, *, as_json: bool) -> None:
    """Print what waits there."""
    from bai.render.humanize import clean, iso_time

    found = list(trash_entries(desired, storage))
    if as_json:
        items = [
            {
                "entry": one.entry, "volume": one.volume, "storageHost": place.host, "node": place.node,
                "path": one.path, "deleted": iso_time(one.at), "commit": one.commit,
            }
            for place, one in found
        ]  # fmt: skip
        print_json("bai.trash/v1", items=items)
        return
    rows = [
        [clean(one.volume), clean(one.entry), place.host, clean(one.path), iso_time(one.at)]
        for place, one in found
    ]
    print_table(settings, ["volume", "entry", "host", "path", "deleted"], rows, empty="The trash is empty.")
