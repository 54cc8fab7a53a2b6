"""Volumes of a Kubernetes cluster as the reconciler asks for them (`providers.storage.base.Storage`).

Claims are made, grown, put into the trash and deleted. Folders of nodes and NFS servers are nobody's to make:
of them it is only asked whether the namespace admits pods that mount them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

from providers.kubernetes.api.client import ApiClient, Object
from providers.kubernetes.api.errors import NOT_FOUND, ApiRefusal, api_errors
from providers.kubernetes.api.reflector import Reflector
from providers.kubernetes.objects.names import namespaced
from providers.kubernetes.objects.volume_claim import (
    RESOURCE,
    TRASH,
    claim_manifest,
    claim_obstacle,
    claim_path,
    claim_state,
    kept_of_claim,
    parse_trashed,
    requested_size,
    shrink_problem,
    trash_annotation,
)
from providers.kubernetes.pods.find import get_or_none
from providers.kubernetes.volumes.admission import admission_problem
from providers.storage.base import FolderState, TrashedVolume, TrashLocation, VolumeClaim, VolumeFolder
from schemas.problems.errors.node import VolumeRefused
from schemas.problems.errors.provider import ProviderError

_AT_ONCE = 8
Place = tuple[str, str, str]
"""Namespace, NFS server (empty: the nodes) and root of folders that pods mount."""


class KubernetesStorage:
    """Nothing is connected to before it is needed."""

    def __init__(self, connect: Callable[[], ApiClient]) -> None:
        self._connect = connect
        self._admitted: set[Place] = set()
        self._claims: dict[str, Reflector[Object]] = {}
        """Namespace → its claims, as they were looked at."""

    @cached_property
    def _client(self) -> ApiClient:
        return self._connect()

    def close(self) -> None:
        for each in self._claims.values():
            each.close()
        self._claims.clear()
        if (opened := vars(self).pop("_client", None)) is not None:
            opened.close()

    def observe(self, folders: Sequence[VolumeFolder], *, usage: bool = False) -> Mapping[str, FolderState]:
        """One list for each namespace with claims, and a watch for who looks again. How much is in a volume
        only kubelets know: `usage` makes no difference. Folders that pods may mount are left out: nobody
        looks at them."""
        claims: dict[str, dict[str, VolumeClaim]] = {}
        places: dict[Place, list[str]] = {}
        for folder in folders:
            if folder.claim is not None:
                claims.setdefault(folder.claim.namespace, {})[folder.volume] = folder.claim
            elif folder.namespace:
                places.setdefault(_place(folder), []).append(folder.volume)
        with ThreadPoolExecutor(_AT_ONCE, "bai-volumes") as pool:
            found = {
                volume: seen
                for part in pool.map(lambda item: self._look_at_claims(*item), claims.items())
                for volume, seen in part.items()
            }
            for volumes, why in zip(places.values(), pool.map(self._place_problem, places), strict=True):
                found.update({volume: FolderState("refused", why) for volume in volumes if why})
        return found

    def _look_at_claims(self, namespace: str, claims: Mapping[str, VolumeClaim]) -> dict[str, FolderState]:
        if (known := self._claims.get(namespace)) is None:
            path = namespaced(RESOURCE, namespace)
            known = self._claims.setdefault(namespace, Reflector(self._client, path, kept_of_claim))
        try:
            with api_errors():
                there = known.look().objects
        except ProviderError as error:
            return {volume: FolderState("unknown", str(error)) for volume in claims}
        found = {}
        for volume, claim in claims.items():
            key = (namespace, claim.name)
            if key in there:
                found[volume] = claim_state(there[key], volume, claim)
            elif why := known.broken.get(key):
                found[volume] = FolderState(
                    "unknown", f"claim {namespace}/{claim.name} cannot be read: {why}"
                )
            else:
                found[volume] = FolderState("absent")
        return found

    def _record(self, claim: Object) -> Object:
        """What an answer to us said, which a watch may tell later."""
        known = self._claims.get(str(claim["metadata"].get("namespace")))
        if known is not None:
            known.record(claim)
        return claim

    def _forget(self, metadata: Mapping[str, Any]) -> None:
        known = self._claims.get(metadata["namespace"])
        if known is not None:
            known.forget((metadata["namespace"], metadata["name"]), metadata["uid"])

    def _place_problem(self, place: Place) -> str:
        """Asked until pods are admitted: what a namespace admits seldom changes."""
        if place in self._admitted:
            return ""
        try:
            with api_errors():
                why = admission_problem(self._client, *place)
        except ProviderError as error:
            return str(error)
        if not why:
            self._admitted.add(place)
        return why

    def make(self, folder: VolumeFolder) -> None:
        if folder.claim is None:
            why = self._place_problem(_place(folder)) if folder.namespace else ""
            if why:
                raise _refused(folder, why)
            return
        with api_errors():
            try:
                found = get_or_none(self._client, claim_path(folder.claim.namespace, folder.claim.name))
                if found is None:
                    found = self._new_claim(folder.volume, folder.claim)
                why = claim_obstacle(found, folder.volume, folder.claim) or self._grow(found, folder.claim)
            except ApiRefusal as refusal:
                if refusal.status not in (403, 422):
                    raise
                why = refusal.message.partition("\n")[0]  # What follows is the object.
        if why:
            raise _refused(folder, why)

    def _new_claim(self, volume: str, claim: VolumeClaim) -> Object:
        path = namespaced(RESOURCE, claim.namespace)
        try:
            return self._record(self._client.create(path, claim_manifest(volume, claim)))
        except ApiRefusal as refusal:
            if refusal.reason != "AlreadyExists":
                raise
            return self._client.get(f"{path}/{claim.name}")  # Another attempt at the same time.

    def _grow(self, found: Object, claim: VolumeClaim) -> str:
        """Why its size cannot be what it must be; empty when it is, or is going to be."""
        has = requested_size(found)
        if has > claim.size:
            return shrink_problem(claim, has)
        if has < claim.size:
            more = {"spec": {"resources": {"requests": {"storage": str(claim.size)}}}}
            self._record(self._client.patch(claim_path(claim.namespace, claim.name), more))
        return ""

    def trash(self, folder: VolumeFolder, record: TrashedVolume) -> None:
        if folder.claim is not None:
            self._note(folder.claim.namespace, folder.claim.name, trash_annotation(record))

    def _note(self, namespace: str, name: str, record: str | None) -> None:
        """Nothing where the claim is gone."""
        with api_errors():
            try:
                about = {"metadata": {"annotations": {TRASH: record}}}
                self._record(self._client.patch(claim_path(namespace, name), about))
            except ApiRefusal as refusal:
                if refusal.status != NOT_FOUND:
                    raise

    def trashed(self, trash: TrashLocation) -> tuple[TrashedVolume, ...]:
        return tuple(sorted((record for record, _ in self._in_trash(trash)), key=lambda one: one.at))

    def _in_trash(self, trash: TrashLocation) -> list[tuple[TrashedVolume, Object]]:
        query = {"labelSelector": "app.kubernetes.io/managed-by=bai"}
        found = []
        with api_errors():
            for namespace in trash.namespaces:
                for claim in self._client.list(namespaced(RESOURCE, namespace), query).items:
                    record = parse_trashed(claim)
                    if record is not None and record.host == trash.host:
                        found.append((record, claim))
        return found

    def _entry(self, trash: TrashLocation, entry: str) -> Object:
        """Raises VolumeRefused."""
        for record, claim in self._in_trash(trash):
            if record.entry == entry:
                return claim
        raise VolumeRefused(volume=f"StorageHost/{trash.host}", node="trash", why=f"{entry} is not there")

    def restore(self, trash: TrashLocation, entry: str) -> None:
        metadata = self._entry(trash, entry)["metadata"]
        self._note(metadata["namespace"], metadata["name"], None)

    def purge(self, trash: TrashLocation, entry: str) -> None:
        metadata = self._entry(trash, entry)["metadata"]
        # One that was restored meanwhile is another version, and stays.
        same = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        with api_errors():
            path = claim_path(metadata["namespace"], metadata["name"])
            left = self._client.delete(path, {"preconditions": same})
        if left.get("kind") == "Status":
            self._forget(metadata)
        else:
            self._record(left)  # Its pods keep it, until they are gone.


def _place(folder: VolumeFolder) -> Place:
    return folder.namespace, folder.server, folder.root


def _refused(folder: VolumeFolder, why: str) -> VolumeRefused:
    return VolumeRefused(volume=folder.volume, node=f"namespace {folder.namespace}", why=why)
