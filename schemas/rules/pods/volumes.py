"""Volumes of Kubernetes clusters: where they may lie, what they cannot have, and who can mount them at once.

A kubelet follows links on its way to a folder of its node, and a session can leave links in its volume. So no
volume's folder may ever lie in what was another's, not even after that one's document is gone: folders lie
two below their storage host's base, no deeper and no higher, and no base lies in another one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from schemas.kinds.cluster import Cluster
from schemas.kinds.session import Mount, Session
from schemas.kinds.storage import StorageHost, Volume
from schemas.problems.issues import Issue, Loc
from schemas.repository.repository import Repository
from schemas.values.resource_ref import identity_of

DEPTH = 2
_NOBODY_LOOKS = "no file of the nodes is looked at in a Kubernetes cluster"


def pod_host_rules(repository: Repository, host: StorageHost) -> Iterator[Issue]:
    """What is wrong with a storage host in its cluster."""
    cluster, spec = _cluster(repository, host), host.spec
    if cluster is None:
        return
    if cluster.spec.provider != "kubernetes":
        for name, what in (("nfs", "kubelets mount exports"), ("pvc", "claims are Kubernetes' own")):
            if getattr(spec, name) is not None:
                message = f"{what}, and the provider of Cluster/{cluster.name} is {cluster.spec.provider}"
                hint = "mount it on the nodes, and write where as root"
                yield Issue(("spec", name), message, hint, "BAI-V050", key=True)
        return
    if spec.file_systems:
        yield Issue(("spec", "fileSystems"), _NOBODY_LOOKS, "leave it out", "BAI-V050", key=True)
    if spec.node is not None and (spec.root is None or spec.type != "local"):
        message = f"{_NOBODY_LOOKS}, and it is on all of them"
        yield Issue(("spec", "node"), message, "leave it out", "BAI-V050", key=True)
    yield from _base_rules(repository, host, cluster)


def _base_rules(repository: Repository, host: StorageHost, cluster: Cluster) -> Iterator[Issue]:
    base, kubernetes = host.spec.base, cluster.spec.kubernetes
    if base is None:
        return
    at: Loc = ("spec", "root") if host.spec.root is not None else ("spec", "nfs", "path")
    if host.spec.root is not None and not kubernetes.allows_host_path(base):
        said = f"only {', '.join(kubernetes.host_path_roots)}" if kubernetes.host_path_roots else "none"
        message = f"'{base}' lies in no folder that pods may be given: Cluster/{cluster.name} has {said}"
        yield Issue(at, message, "spec.kubernetes.hostPathRoots of the cluster names them", "BAI-V050")
    for above in base.parents:
        for other in repository.hosts_by_base.get(above, ()):
            if repository.cluster_of(other) == cluster.name:
                message = f"'{base}' lies in that of StorageHost/{other.name}"
                yield Issue(at, message, "give each storage host a folder of its own", "BAI-V050")
                return


def pod_volume_rules(repository: Repository, volume: Volume) -> Iterator[Issue]:
    """What a volume says that nobody would do where it lies, and what it must say there."""
    host, spec = repository.host_of(volume), volume.spec
    cluster = _cluster(repository, volume)
    if host is None or cluster is None:
        return
    if host.spec.pvc is None and spec.size is not None:
        hint = "quota limits a folder" if cluster.spec.provider != "kubernetes" else "leave it out"
        yield Issue(("spec", "size"), "a folder has no size of its own", hint, "BAI-V050", key=True)
    if cluster.spec.provider != "kubernetes":
        return
    for name in ("uid", "mode", "quota"):
        if getattr(spec, name) is not None:
            hint = "size is a claim's capacity" if name == "quota" and host.spec.pvc else "leave it out"
            message = f"no {name} is set in a Kubernetes cluster"
            yield Issue(("spec", name), message, hint, "BAI-V050", key=True)
    if host.spec.pvc is not None:
        yield from _claim_rules(volume, host, cluster)
    else:
        yield from _folder_rules(repository, volume)


def _folder_rules(repository: Repository, volume: Volume) -> Iterator[Issue]:
    """Nobody looks whom a folder belongs to: its place has to say it."""
    steps = PurePosixPath(volume.path).parts
    at: Loc = ("spec", "path") if volume.spec.path is not None else ("metadata", "name")
    hint = f"write a path such as {volume.project or 'shared'}/{volume.name}"
    if len(steps) != DEPTH:
        message = f"'{volume.path}' is not two folders deep, as those of all pods' volumes are"
        yield Issue(at, message, hint, "BAI-V050")
    elif volume.project is not None and steps[0] != volume.project:
        message = f"'{volume.path}' is not in the folder of its project"
        yield Issue(at, message, hint, "BAI-V053")
    elif volume.project is None and identity_of("Project", steps[0]) in repository.resources:
        yield Issue(at, f"'{volume.path}' is in the folder of Project/{steps[0]}", hint, "BAI-V053")


def _claim_rules(volume: Volume, host: StorageHost, cluster: Cluster) -> Iterator[Issue]:
    assert host.spec.pvc is not None
    if volume.spec.path is not None:
        message = "a claim is a volume of its own, and has no folder"
        yield Issue(("spec", "path"), message, "leave it out", "BAI-V050", key=True)
    if volume.spec.size is None and host.spec.pvc.size is None:
        message = f"no size is said, neither here nor by StorageHost/{host.name}"
        yield Issue(("spec",), message, "write size: 10GiB", "BAI-V043")
    if volume.project is None and cluster.spec.kubernetes.several_namespaces:
        message = f"a claim is in one namespace, and Cluster/{cluster.name} has one for each project"
        yield Issue(("metadata", "name"), message, "give the volume a project", "BAI-V050")


def pod_mount_rules(repository: Repository, session: Session) -> Iterator[Issue]:
    """Mounts of claims whose access modes do not allow them."""
    for index, mount in enumerate(session.spec.mounts):
        volume = repository.volume_of(session, mount.volume)
        host = repository.host_of(volume) if volume else None
        if host is None or host.spec.pvc is None:
            continue
        modes = host.spec.pvc.access_modes
        why, needed = _missing_mode(session, mount, frozenset(modes))
        if why:
            hint = f"StorageHost/{host.name} has accessModes {', '.join(modes)}: this takes {needed}"
            yield Issue(("spec", "mounts", index, "volume"), why, hint, "BAI-V050")


def _missing_mode(session: Session, mount: Mount, modes: frozenset[str]) -> tuple[str, str]:
    """Why a mount needs a mode that is not there, and which one; empty when it needs none."""
    containers = len(session.spec.containers)
    if not mount.read_only and modes == {"ReadOnlyMany"}:
        return f"Volume {mount.volume} can only be read", "readOnly: true, or ReadWriteMany"
    if session.spec.cluster.mode == "multi-node" and containers > 1:
        if not modes & ({"ReadOnlyMany", "ReadWriteMany"} if mount.read_only else {"ReadWriteMany"}):
            needed = "ReadWriteMany or ReadOnlyMany" if mount.read_only else "ReadWriteMany"
            return f"Volume {mount.volume} is on one node at a time, and the session is on several", needed
    elif containers > 1 and modes == {"ReadWriteOncePod"}:
        return f"Volume {mount.volume} is in one container, and the session has {containers}", "ReadWriteOnce"
    return "", ""


def _cluster(repository: Repository, resource: StorageHost | Volume) -> Cluster | None:
    found = repository.resources.get(identity_of("Cluster", repository.cluster_of(resource) or ""))
    return found if isinstance(found, Cluster) else None
