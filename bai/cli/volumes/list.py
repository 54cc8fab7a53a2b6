"""Volumes with their folders: where they are, what they hold, what they may hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bai.cli.output import print_json, print_table
from bai.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from providers.storage.base import FolderState, VolumeFolder


def list_volumes(
    settings: Settings,
    folders: Mapping[str, VolumeFolder],
    seen: Mapping[str, FolderState],
    *,
    as_json: bool = False,
) -> None:
    """Print these, by identity, with what was seen of them."""
    from bai.render.resources.volumes import COLUMNS, volume_json, volume_rows

    if as_json:
        items = [volume_json(folder, seen.get(identity)) for identity, folder in folders.items()]
        print_json("bai.volumes/v1", items=items)
        return
    print_table(settings, COLUMNS, volume_rows(folders, seen), empty="There is no Volume.")
