"""Claims of volumes are watched by who looks again, and what was done about them is known at once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from providers.kubernetes.objects.volume_claim import claim_manifest
from providers.kubernetes.volumes.storage import KubernetesStorage
from providers.storage.base import FolderState, TrashedVolume, TrashLocation, VolumeClaim, VolumeFolder
from tests.providers.kubernetes.api_server import Answer, ApiServer, Request, event, listed, serving, status
from tests.waiting import until

MIB = 2**20
VOLUME = "Volume/vision/data"
RECORD = TrashedVolume(VOLUME, "e-1", "claims", "x", 7.5)
TRASH = TrashLocation("claims", "", "", namespaces=("bai",))


def folder(size: int = MIB) -> VolumeFolder:
    claim = VolumeClaim("bai", "data-0", ("ReadWriteOnce",), size)
    return VolumeFolder(VOLUME, "", "", "", host="claims", namespace="bai", claim=claim)


class Claims:
    """A server of claims, whose watches tell what `tell` says and nothing of what else is done."""

    def __init__(self) -> None:
        self.claims: dict[str, dict[str, Any]] = {}
        self.version = 10
        self.watches: list[Request] = []
        self.lists = 0
        self.over = False

    def put(self, claim: dict[str, Any], phase: str = "Pending") -> dict[str, Any]:
        self.version += 1
        name = claim["metadata"]["name"]
        about = {"uid": "u1", **claim["metadata"], "resourceVersion": str(self.version)}
        self.claims[name] = {
            "kind": "PersistentVolumeClaim", **claim, "metadata": about, "status": {"phase": phase},
        }  # fmt: skip
        return self.claims[name]

    def tell(self, what: str, claim: dict[str, Any]) -> None:
        for watch in self.watches:
            watch.say(event(what, claim))

    def __call__(self, request: Request) -> Answer:
        if request.watches:
            request.begin()
            self.watches.append(request)
            until(lambda: self.over, "the test is over")
            return None
        name = request.path.rpartition("/")[2]
        if name == "persistentvolumeclaims":
            if request.method == "POST":
                return 201, self.put(request.body)
            self.lists += "labelSelector" not in request.query
            return listed(*self.claims.values(), version=self.version)
        if name not in self.claims:
            return status(404)
        if request.method == "PATCH":
            return 200, self.put(_merged(self.claims[name], request.body))
        if request.method == "DELETE":
            del self.claims[name]
            return 200, {"kind": "Status", "status": "Success", "metadata": {}}
        return 200, self.claims[name]


def _merged(there: Any, more: Any) -> Any:
    if not isinstance(more, dict):
        return more
    found = dict(there) if isinstance(there, dict) else {}
    for name, value in more.items():
        found[name] = _merged(found.get(name), value)
    return {name: value for name, value in found.items() if value is not None}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[Claims, ApiServer, KubernetesStorage]]:
    claims = Claims()
    with serving(tmp_path, claims) as server:
        storage = KubernetesStorage(server.client)
        yield claims, server, storage
        claims.over = True
        storage.close()


def seen(storage: KubernetesStorage) -> FolderState:
    return storage.observe([folder()])[VOLUME]


def test_who_looks_again_and_again_asks_nothing(site: tuple[Claims, ApiServer, KubernetesStorage]) -> None:
    claims, server, storage = site
    assert seen(storage).state == seen(storage).state == "absent"
    until(lambda: claims.watches, "it watches")
    asked = len(server.requests)
    for _ in range(5):
        assert seen(storage).state == "absent"
    assert len(server.requests) == asked and claims.lists == 2

    made = claims.put(json.loads(json.dumps(claim_manifest(VOLUME, folder().claim or pytest.fail()))))
    claims.tell("ADDED", made)
    until(lambda: seen(storage).why == "its claim is Pending", lambda: f"it is told: {seen(storage)}")
    claims.tell("MODIFIED", claims.put(made, "Bound"))
    until(lambda: (seen(storage).state, seen(storage).why) == ("there", ""), "it is bound")
    assert seen(storage).size == MIB and len(server.requests) == asked


def test_what_was_done_is_known_before_the_watch_tells(
    site: tuple[Claims, ApiServer, KubernetesStorage],
) -> None:
    claims, _, storage = site
    assert seen(storage).state == seen(storage).state == "absent"
    until(lambda: claims.watches, "it watches")
    storage.make(folder())
    assert (seen(storage).state, seen(storage).size) == ("there", MIB)
    storage.make(folder(2 * MIB))
    assert seen(storage).size == 2 * MIB
    storage.trash(folder(), RECORD)
    assert "bai volumes restore vision/data" in seen(storage).why
    storage.restore(TRASH, "e-1")
    assert seen(storage).state == "there"
    storage.trash(folder(), RECORD)
    storage.purge(TRASH, "e-1")
    assert seen(storage).state == "absent" and claims.lists == 2
