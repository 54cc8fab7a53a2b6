"""Volumes with their folders: where they are, what they hold, what they may hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bai.cli.output import print_json, print_table
from bai.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Collection

    from reconciler.workspace.workspace import Workspace


def list_volumes(
    settings: Settings, workspace: Workspace, *, as_json: bool = False, only: Collection[str] | None = None
) -> None:
    """Count and print; `only` these identities."""
    from bai.render.resources.volumes import COLUMNS, volume_json, volume_rows
    from reconciler.values.volume_folders import volume_folders

    found = volume_folders(workspace.desired())
    seen = workspace.volumes(usage=True) or {}
    if only is not None:
        found = {identity: folder for identity, folder in found.items() if identity in only}
    if as_json:
        print_json("bai.volumes/v1", items=[volume_json(folder, seen.get(i)) for i, folder in found.items()])
        return
    print_table(settings, COLUMNS, volume_rows(found, seen), empty="There is no Volume.")
