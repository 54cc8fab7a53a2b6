"""Deleted volumes, found again in the trash of their storage hosts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from bai.cli.output import print_json, table
from bai.settings import Settings

if TYPE_CHECKING:
    from providers.storage.base import Storage, Trash, Trashed
    from reconciler.workspace.workspace import Workspace


def storage_of(workspace: Workspace) -> Storage:
    """Raises CommandError where volumes are not folders of nodes."""
    from schemas.problems.errors import CommandError

    if workspace.storage is None:
        provider = workspace.cluster.spec.provider
        raise CommandError(why=f"with provider {provider}, volumes are not folders that bai looks after")
    return workspace.storage


def entries(workspace: Workspace) -> Iterator[tuple[Trash, Trashed]]:
    """Everything in the trash of every storage host, oldest first within each."""
    from reconciler.values.volume_folders import trashes

    storage = storage_of(workspace)
    for place in trashes(workspace.desired()):
        for entry in storage.trashed(place):
            yield place, entry


def find(workspace: Workspace, name: str) -> tuple[Trash, Trashed]:
    """By entry, identity, `project/name` or name. Raises NoSuchResource, AmbiguousName."""
    from schemas.problems.errors import AmbiguousName, NoSuchResource

    found = [
        (place, entry)
        for place, entry in entries(workspace)
        if name in (entry.entry, entry.volume, entry.volume.partition("/")[2], entry.volume.split("/")[-1])
    ]
    if not found:
        hint = "`bai volumes trash` lists deleted volumes"
        raise NoSuchResource(what="deleted volume", name=name, hint=hint)
    if len(found) > 1:
        several = ", ".join(entry.entry for _, entry in found)
        raise AmbiguousName(name=name, candidates=several, hint="name the entry")
    return found[0]


def list_trash(settings: Settings, workspace: Workspace, *, as_json: bool) -> None:
    """Print what waits there."""
    from bai.render.humanize import clean, moment

    found = list(entries(workspace))
    if as_json:
        items = [
            {
                "entry": one.entry, "volume": one.volume, "storageHost": place.host, "node": place.node,
                "path": one.path, "deleted": moment(one.at), "commit": one.commit,
            }
            for place, one in found
        ]  # fmt: skip
        print_json("bai.trash/v1", items=items)
        return
    rows = [
        [clean(one.volume), clean(one.entry), place.host, clean(one.path), moment(one.at)]
        for place, one in found
    ]
    table(settings, ["volume", "entry", "host", "path", "deleted"], rows, empty="The trash is empty.")
