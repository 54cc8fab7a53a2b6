"""Why a pod cannot become a session: what bai would not keep, or somebody else would undo. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from providers.kubernetes.objects import labels
from providers.kubernetes.objects.names import PREFIX

_MANAGED = "app.kubernetes.io/managed-by"
_MIRROR = "kubernetes.io/config.mirror"
_SHM = "/dev/shm"
_TOKEN = "kube-api-access-"
"""How the volume is called that the cluster itself adds."""
_NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_NODES_OWN = ("hostNetwork", "hostPID", "hostIPC")


def obstacles(pod: Mapping[str, Any], owner: str = "") -> Iterator[str]:
    """`owner`: as `labels.owner_hash` has it, of who asks; that he has adopted it already is no obstacle."""
    yield from _belongs(pod["metadata"], owner)
    spec = pod.get("spec") or {}
    if (pod.get("status") or {}).get("phase") != "Running":
        yield "it has not started"
    if len(spec.get("containers") or ()) != 1:
        yield f"it has {len(spec.get('containers') or ())} containers"
    if spec.get("initContainers"):
        yield "it has init containers"
    for field in _NODES_OWN:
        if spec.get(field):
            yield f"it has its node's own ({field})"
    if (spec.get("serviceAccountName") or "default") != "default":
        yield f"it is somebody in the cluster (service account {spec['serviceAccountName']})"
    if spec.get("resources"):
        yield "it has resources as a whole, not by container"
    for container in spec.get("containers") or ():
        yield from _container(container)
        yield from _volumes(spec, container)


def _belongs(metadata: Mapping[str, Any], owner: str) -> Iterator[str]:
    if not _NAME.fullmatch(str(metadata["name"])):
        yield "no pod of Kubernetes is called so"
    for each in metadata.get("ownerReferences") or ():
        again = " and would make it again" if each.get("controller") else ""
        yield f"{each.get('kind')} {each.get('name')} owns it{again}"
    if _MIRROR in (metadata.get("annotations") or {}):
        yield "a file on its node makes it"
    if metadata.get("deletionTimestamp"):
        yield "it is being deleted"
    given = metadata.get("labels") or {}
    marked = {*given, *(metadata.get("annotations") or {})}
    if any(str(key).startswith(PREFIX) for key in marked):
        own = owner and given.get(f"{PREFIX}owner") == owner and labels.adopted_id(metadata)
        if not own:
            yield "it carries labels of bai's already"
    elif _MANAGED in given:
        yield f"{given[_MANAGED]} manages it ({_MANAGED})"


def _container(container: Mapping[str, Any]) -> Iterator[str]:
    security = container.get("securityContext") or {}
    if security.get("privileged"):
        yield "it is privileged"
    if added := (security.get("capabilities") or {}).get("add"):
        yield f"it has capabilities of root ({', '.join(map(str, added))})"
    for port in container.get("ports") or ():
        if port.get("hostPort"):
            yield f"it has port {port['hostPort']} of its node"
    if container.get("volumeDevices"):
        yield "it has block devices"


def _volumes(spec: Mapping[str, Any], container: Mapping[str, Any]) -> Iterator[str]:
    """Nothing for a token that the cluster has added, and for shared memory."""
    mounted = {each.get("name"): each.get("mountPath") for each in container.get("volumeMounts") or ()}
    for volume in spec.get("volumes") or ():
        name = str(volume.get("name"))
        if name.startswith(_TOKEN) and "projected" in volume:
            continue
        if shared_memory(volume) and mounted.get(name) == _SHM:
            continue
        kind = next((key for key in volume if key != "name"), "volume")
        yield f"it has the volume {name} ({kind})"


def shared_memory(volume: Mapping[str, Any]) -> str:
    """How much an `emptyDir` in memory holds; empty for other volumes, and one without a limit."""
    found = volume.get("emptyDir") or {}
    return str(found.get("sizeLimit") or "") if found.get("medium") == "Memory" else ""
