"""PersistentVolumeClaims of volumes: what they are made of, and what is there. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from providers.kubernetes.objects import labels
from providers.kubernetes.objects.names import PREFIX, namespaced
from providers.kubernetes.objects.quantity import parse_quantity
from providers.storage.base import FolderState, TrashedVolume, VolumeClaim
from schemas.values.quantities import format_memory
from schemas.values.resource_ref import ref_of

RESOURCE = "persistentvolumeclaims"
VOLUME = f"{PREFIX}volume"
"""The annotation with the identity of the volume that a claim is."""
TRASH = f"{PREFIX}trash"
"""The annotation of a claim whose volume was deleted: the record of that."""
SELECTED_NODE = "volume.kubernetes.io/selected-node"
"""The annotation by which a scheduler tells a provisioner where the first pod is going to be: storage classes
that wait for it (WaitForFirstConsumer) make nothing without it."""


def claim_path(namespace: str, name: str) -> str:
    return f"{namespaced(RESOURCE, namespace)}/{name}"


def claim_manifest(volume: str, claim: VolumeClaim) -> dict[str, Any]:
    ref = ref_of(volume)
    selected = {f"{PREFIX}volume": ref.name, **({f"{PREFIX}project": ref.project} if ref.project else {})}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": claim.name,
            "namespace": claim.namespace,
            "labels": {**labels.MANAGED, **selected},
            "annotations": {VOLUME: volume},
        },
        "spec": {
            "accessModes": list(claim.access_modes),
            "resources": {"requests": {"storage": str(claim.size)}},
            **({"storageClassName": claim.storage_class} if claim.storage_class is not None else {}),
        },
    }


def claim_obstacle(found: Mapping[str, Any], volume: str, claim: VolumeClaim) -> str:
    """Why a claim that is there cannot be this volume; empty when it can."""
    metadata, spec = found["metadata"], found["spec"]
    named = f"claim {claim.namespace}/{claim.name}"
    if (metadata.get("labels") or {}).get("app.kubernetes.io/managed-by") != "bai":
        return f"{named} is there, and not bai's"
    if _annotations(found).get(VOLUME) != volume:
        return f"{named} is {_annotations(found).get(VOLUME)}"
    if metadata.get("deletionTimestamp"):
        return f"{named} is being deleted"
    if TRASH in _annotations(found):
        name = volume.partition("/")[2]
        return (
            f"{named} has data of a deleted volume of this name: `bai volumes restore {name}` brings it "
            f"back, `bai volumes purge {name}` deletes it for good"
        )
    modes = spec.get("accessModes") or []
    if set(modes) != set(claim.access_modes):
        return f"{named} has accessModes {', '.join(modes)}, which never change"
    has = spec.get("storageClassName")
    if claim.storage_class is not None and has != claim.storage_class:
        return f"{named} is of storage class {has}, which never changes"
    return ""


def kept_of_claim(found: Mapping[str, Any]) -> dict[str, Any]:
    """What `claim_state` reads of a claim, which is all that is kept of those that are watched."""
    metadata, spec, status = found["metadata"], found.get("spec") or {}, found.get("status") or {}
    return {
        "metadata": {
            "name": metadata["name"],
            "labels": {name: (metadata.get("labels") or {}).get(name) for name in labels.MANAGED},
            "annotations": {
                name: said for name, said in _annotations(found).items() if name in (VOLUME, TRASH)
            },
            "deletionTimestamp": metadata.get("deletionTimestamp"),
        },
        "spec": {name: spec.get(name) for name in ("accessModes", "storageClassName", "resources")},
        "status": {name: status.get(name) for name in ("phase", "capacity")},
    }


def claim_state(found: Mapping[str, Any], volume: str, claim: VolumeClaim) -> FolderState:
    why = claim_obstacle(found, volume, claim)
    if why:
        return FolderState("refused", why)
    phase = str((found.get("status") or {}).get("phase") or "Pending")
    waits = "" if phase == "Bound" else f"its claim is {phase}"
    return FolderState("there", waits, quota=_capacity(found), size=requested_size(found))


def requested_size(found: Mapping[str, Any]) -> int:
    """Bytes that a claim asks for."""
    text = ((found["spec"].get("resources") or {}).get("requests") or {}).get("storage")
    return parse_quantity(str(text)) if text else 0


def shrink_problem(claim: VolumeClaim, has: int) -> str:
    asked, wanted = format_memory(has), format_memory(claim.size)
    return f"claim {claim.namespace}/{claim.name} asks for {asked}, and cannot shrink to {wanted}"


def _capacity(found: Mapping[str, Any]) -> int:
    text = ((found.get("status") or {}).get("capacity") or {}).get("storage")
    return parse_quantity(str(text)) if text else 0


def trash_annotation(record: TrashedVolume) -> str:
    about = {
        "volume": record.volume, "entry": record.entry, "host": record.host, "path": record.path,
        "at": record.at, "commit": record.commit, "document": record.document,
    }  # fmt: skip
    return json.dumps(about, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def parse_trashed(found: Mapping[str, Any]) -> TrashedVolume | None:
    """None for a claim that is not in the trash, or whose record bai did not write."""
    try:
        one = json.loads(_annotations(found)[TRASH])
        return TrashedVolume(
            str(one["volume"]), str(one["entry"]), str(one["host"]), str(one["path"]), float(one["at"]),
            str(one["commit"]), one["document"],
        )  # fmt: skip
    except (KeyError, ValueError, TypeError):
        return None


def _annotations(found: Mapping[str, Any]) -> Mapping[str, str]:
    return (found.get("metadata") or {}).get("annotations") or {}
