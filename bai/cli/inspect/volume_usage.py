"""What volumes hold, counted where they lie."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bai.settings import Settings

if TYPE_CHECKING:
    from bai.queries.models import GetQuery


def list_volume_usage(settings: Settings, query: GetQuery) -> None:
    """Raises CommandError, NoSuchResource, AmbiguousName."""
    from bai.cli.volumes.list import list_volumes
    from bai.queries.resources import chosen_identities
    from reconciler.values.volume_folders import volume_folders
    from schemas.problems.errors.command import CommandError

    if query.kind != "Volume":
        raise CommandError(why="--usage is for volumes", hint="bai get volumes --usage; bai top for sessions")
    with settings.reading_workspace() as workspace:
        desired = workspace.desired()
        only = chosen_identities(query.name, query.kind, query.project, set(desired.digests))
        folders = {each: folder for each, folder in volume_folders(desired).items() if each in only}
        found = workspace.volumes(usage=True) or {}
        list_volumes(settings, folders, found, as_json=query.form == "json")
