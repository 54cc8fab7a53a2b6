"""A kernel's mounts as the volumes of its pod, and where its container sees them. Pure.

What is mounted is always a volume's own folder, which no session can replace, or its claim; a folder in it is
the kubelet's `subPath`, which follows no link that leaves the volume.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from providers.base import Mount
from schemas.kinds.parts.kubernetes import Kubernetes

Source = Mapping[str, Any]


def mount_problem(mounts: Sequence[Mount], options: Kubernetes) -> str:
    """Why pods are not given one of them; empty when they are given all."""
    for mount in mounts:
        sub_path = PurePosixPath(mount.sub_path)
        if sub_path.is_absolute() or ".." in sub_path.parts:
            return f"mount {mount.source}: {mount.sub_path!r} leads out of its volume"
        if mount.claim:
            continue
        path, root = PurePosixPath(mount.source), PurePosixPath(mount.root or "/nowhere")
        if ".." in path.parts or not path.is_relative_to(root):
            return f"mount {mount.source}: not under {mount.root or 'the root of a storage host'}"
        if not mount.server and not options.allows_host_path(root):
            return f"mount {mount.source}: hostPathRoots of the cluster have no folder that {root} lies in"
    return ""


def source_of(mount: Mount) -> Source:
    """What the pod calls a volume's source. A folder must be there: where its root is not mounted, none is
    made on the node's own disk."""
    if mount.claim:
        return {"persistentVolumeClaim": {"claimName": mount.claim}}
    if mount.server:
        return {"nfs": {"server": mount.server, "path": str(PurePosixPath(mount.volume))}}
    return {"hostPath": {"path": str(PurePosixPath("/", mount.volume.lstrip("/"))), "type": "Directory"}}


def pod_volumes(mounts: Sequence[Mount]) -> list[dict[str, Any]]:
    """One for each volume, however often it is mounted."""
    return [{"name": name, **source} for name, source in _named(mounts)]


def volume_mounts(mounts: Sequence[Mount]) -> list[dict[str, Any]]:
    names = _named(mounts)
    return [
        {
            "name": next(name for name, source in names if source == source_of(mount)),
            "mountPath": mount.target,
            **({"subPath": str(PurePosixPath(mount.sub_path))} if mount.sub_path else {}),
            **({"readOnly": True} if mount.read_only else {}),
        }
        for mount in mounts
    ]


def _named(mounts: Sequence[Mount]) -> list[tuple[str, Source]]:
    sources: list[Source] = []
    for mount in mounts:
        if (source := source_of(mount)) not in sources:
            sources.append(source)
    return [(f"volume-{number}", source) for number, source in enumerate(sources, 1)]


def claims_of(pod: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of the claims that a pod mounts."""
    found = (each.get("persistentVolumeClaim") or {} for each in (pod.get("spec") or {}).get("volumes") or ())
    return tuple(str(each["claimName"]) for each in found if each.get("claimName"))
