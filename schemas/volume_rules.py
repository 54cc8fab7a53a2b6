"""Volumes lie apart: none is another's folder, or in it, and none is in the trash."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from schemas.issues import Issue, Loc
from schemas.repository import Repository
from schemas.storage import TRASH, Volume

_AT: Loc = ("spec", "path")


def apart(repository: Repository, volume: Volume) -> Iterator[Issue]:
    """What is wrong with where a volume lies; of two that overlap, the later one is told."""
    place = _place(volume)
    if not place.parts or place.parts[0] == TRASH:
        yield Issue(_AT, f"'{volume.path}' is where deleted volumes wait", "choose another path", "BAI-V050")
        return
    others = _folders(repository, volume)
    for above in (place, *place.parents):
        other = others.get(above, volume.identity)
        if other != volume.identity and (above != place or other < volume.identity):
            relation = "is the folder of" if above == place else "is inside the folder of"
            message = f"'{place}' {relation} {other}"
            yield Issue(_AT, message, "give each volume a folder of its own", "BAI-V050")
            return


def _folders(repository: Repository, volume: Volume) -> Mapping[PurePosixPath, str]:
    """Folder → the first volume that has it, on this volume's host."""
    host = repository.host_of(volume)
    return repository.volume_folders.get(host.name if host else "", {})


def _place(volume: Volume) -> PurePosixPath:
    return PurePosixPath(volume.path)
