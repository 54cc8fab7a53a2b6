"""Volumes lie apart, those of different hosts, too: none is another's folder, or in it, nor in the trash. And
who mounts one becomes no member of another project's group by it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from schemas.kinds.session import Session
from schemas.kinds.storage import TRASH, StorageHost, Volume
from schemas.problems.issues import Issue, Loc
from schemas.repository.repository import Repository

_PATH_FIELD: Loc = ("spec", "path")


def overlap_rules(repository: Repository, volume: Volume) -> Iterator[Issue]:
    """What is wrong with where a volume lies; of two that overlap, the later one is told.

    Who writes to the outer one could put a link in place of the inner one, and choose what is mounted.
    """
    path, host = PurePosixPath(volume.path), repository.host_of(volume)
    if not path.parts or path.parts[0] == TRASH:
        yield Issue(
            _PATH_FIELD, f"'{volume.path}' is where deleted volumes wait", "choose another path", "BAI-V050"
        )
        return
    if host is None or host.spec.base is None:
        return
    place = host.spec.base / path
    for above in (place, *place.parents):
        relation = "is the folder of" if above == place else "is inside the folder of"
        for other, its in repository.volumes_by_path.get(above, ()):
            last = other != volume.identity and (above != place or other < volume.identity)
            if last and _may_share_machine(repository, host, its):
                of = "" if its.name == host.name else f", of StorageHost/{its.name}"
                message = f"'{place if of else path}' {relation} {other}{of}"
                yield Issue(_PATH_FIELD, message, "give each volume a folder of its own", "BAI-V050")
                return


def _may_share_machine(repository: Repository, one: StorageHost, other: StorageHost) -> bool:
    """Whether some machine may have both: not where each is the disk of a node of its own."""
    local = one.spec.type == other.spec.type == "local"
    if local and one.spec.node and other.spec.node and one.spec.node != other.spec.node:
        return False
    return repository.cluster_of(one) == repository.cluster_of(other)


def volume_id_rules(repository: Repository, volume: Volume) -> Iterator[Issue]:
    """A volume belongs to no other project's user, and to none that was one's or will be: with such a number
    it would seem to be that project's, whose folder it could then take. A group without a project is fine:
    only that project's sessions can mount it (`volume_group_rules`)."""
    cluster = repository.cluster_of(volume) or ""
    own = repository.uid_of(cluster, volume.project) if volume.project else None
    for name, number in (("uid", volume.spec.uid), ("gid", volume.spec.gid)):
        if number is None or number == own:
            continue
        whose = repository.projects_by_uid.get((cluster, number))
        drawn = repository.session_uids(cluster)
        if whose is not None and (volume.project or name == "uid"):
            message = f"{number} is the user of Project/{whose}"
        elif whose is None and drawn.first <= number <= drawn.last:
            message = (
                f"{number} is in the range {drawn.first}-{drawn.last}, which projects' users are drawn from"
            )
        else:
            continue
        yield Issue(("spec", name), message, "choose a number that is no project's", "BAI-V053")


def volume_group_rules(repository: Repository, session: Session, volume: Volume, at: Loc) -> Iterator[Issue]:
    """Sessions are members of the group of each volume that they mount: it must not be another project's,
    whose files in a shared volume they could then use."""
    gid, cluster = volume.spec.gid, repository.cluster_of(volume) or ""
    whose = repository.other_project_with_id(cluster, gid, session.project) if gid is not None else None
    if whose is not None:
        message = f"who mounts {volume.identity} would be in its group {gid}, which is of Project/{whose}"
        yield Issue(at, message, "give the volume another gid, or none", "BAI-V053")
