"""Devices that somebody is about to give back, or has given back without that being told yet: by a server
that answers as one does in these moments."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from providers.kubernetes.objects.claim import allocation_status, claim_manifest
from providers.kubernetes.objects.names import PodRef
from providers.kubernetes.observe.devices import devices_of
from providers.kubernetes.observe.observer import Observer
from providers.kubernetes.pods import end
from providers.kubernetes.pods.devices import allocate
from providers.kubernetes.provider import KubernetesProvider
from schemas.kinds.parts.kubernetes import Kubernetes
from schemas.problems.errors.kernel import KernelRefused
from schemas.problems.errors.provider import ProviderUnavailable
from tests.providers.kubernetes.api_server import Answer, ApiServer, Request, event, listed, serving, status
from tests.providers.kubernetes.specs import ID, gpu, kernel, pod, resource_slice

CLASS = {"metadata": {"name": "gpu.nvidia.com", "resourceVersion": "2"}, "spec": {}}
DEVICES = devices_of([resource_slice(gpu(1))])
OLD, NEW = "r-main1-0-g1", ID
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/bai/resourceclaims"
PODS = "/api/v1/namespaces/bai/pods"


def pod_of(name: str, phase: str = "Running", **metadata: Any) -> dict[str, Any]:
    claims = [{"name": "devices-1", "resourceClaimName": f"{name}-c"}]
    about = {"name": name, "uid": f"u-{name}", **metadata}
    return pod(phase, {"running": {}}, metadata=about, spec={"resourceClaims": claims})


def claim_of(name: str, version: int, *, reserved: bool = True, **metadata: Any) -> dict[str, Any]:
    """Of that pod, which has the GPU."""
    user = pod_of(name)
    owner = {"kind": "Pod", "name": name, "uid": user["metadata"]["uid"]}
    made = claim_manifest(PodRef("bai", f"{name}-c"), DEVICES, ["gpu.nvidia.com"], owner)
    made["metadata"].update({"uid": f"c-{name}", "resourceVersion": str(version)}, **metadata)
    made["status"] = allocation_status(DEVICES, user, "n0", ())
    if not reserved:
        made["status"]["reservedFor"] = []
    return made


class Server:
    """`there`: objects by path, which each request finds as they are. What its watches tell is put into
    `told`; `changed`: what a watch of one claim waits for, and does to them."""

    def __init__(self, *, listed_first: Any) -> None:
        self.first = listed_first
        self.there: dict[str, Any] = {}
        self.told: queue.Queue[Any] = queue.Queue()
        self.watched = threading.Event()
        self.changed: Callable[[], None] = lambda: None

    def __call__(self, request: Request) -> Answer:
        last = request.path.rpartition("/")[2]
        if request.watches and "fieldSelector" in request.query:
            self.changed()
            return None
        if request.watches:
            self._tell(request, last)
            return None
        if request.method == "GET" and request.path in self.there:
            return 200, self.there[request.path]
        if request.method == "GET" and last == "deviceclasses":
            return listed(CLASS)
        if request.method == "GET" and last == "resourceclaims":
            return listed(self.first)
        if request.method == "POST" and request.path == CLAIMS:
            return 200, {**claim_of(NEW, 20), "status": {}}
        if request.method == "PUT" and last == "status":
            self.told.put(event("MODIFIED", claim_of(NEW, 21)))
            return 200, claim_of(NEW, 21)
        return self._delete(request) if request.method == "DELETE" else status(404, "no", "NotFound")

    def _tell(self, request: Request, last: str) -> None:
        request.begin()
        if last == "resourceclaims":
            self.watched.set()
        while (said := self.told.get() if last == "resourceclaims" else None) is not None:
            request.say(said)

    def _delete(self, request: Request) -> Answer:
        found = self.there.pop(request.path, None)
        return (200, found) if found else status(404, "no", "NotFound")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[Server, ApiServer]]:
    """One whose watch says nothing of what becomes of the GPU's claim."""
    found = Server(listed_first=claim_of(OLD, 5))
    with serving(tmp_path, found) as up:
        yield found, up
        found.told.put(None)


def give(up: ApiServer) -> None:
    """The GPU to a new kernel."""
    client = up.client()
    observer = Observer(client, Kubernetes(), ())
    try:
        spec = kernel(NEW, devices=("GPU-1",))
        allocate(client, observer, spec, PodRef("bai", NEW), pod_of(NEW), DEVICES, fenced=True)
    finally:
        observer.close()


def test_a_claim_that_is_gone_refuses_nobody_before_the_watch_tells_so(
    server: tuple[Server, ApiServer],
) -> None:
    _, up = server
    give(up)


@pytest.mark.parametrize(
    "user",
    [None, pod_of(OLD, "Succeeded"), pod_of(OLD, "Failed"), pod_of(OLD, uid="another"),
     pod_of(OLD, deletionTimestamp="2026-01-01T00:00:00Z")],
    ids=["gone", "succeeded", "failed", "another", "deleted"],
)  # fmt: skip
@pytest.mark.parametrize("reserved", [True, False])
def test_what_a_pod_that_has_ended_had_is_waited_for(
    server: tuple[Server, ApiServer], user: Any, reserved: bool
) -> None:
    found, up = server
    path = f"{CLAIMS}/{OLD}-c"
    found.there = {path: claim_of(OLD, 5, reserved=reserved)}
    if user is not None:
        found.there[f"{PODS}/{OLD}"] = user

    def freed() -> None:
        found.there[path] = {**claim_of(OLD, 6), "status": {}}

    found.changed = freed
    give(up)


def test_what_is_not_freed_in_time_may_be_asked_for_again(
    server: tuple[Server, ApiServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    found, up = server
    monkeypatch.setattr(end, "MARGIN", -1.0)
    found.there = {f"{CLAIMS}/{OLD}-c": claim_of(OLD, 5)}
    with pytest.raises(ProviderUnavailable, match=f"GPU-1 is still held by claim bai/{OLD}-c, whose pod has"):
        give(up)
    held = claim_of(OLD, 5, reserved=False, ownerReferences=[], deletionTimestamp="2026-01-01T00:00:00Z")
    found.there = {f"{CLAIMS}/{OLD}-c": held}
    with pytest.raises(ProviderUnavailable, match=f"claim bai/{OLD}-c, which is being deleted"):
        give(up)


@pytest.mark.parametrize(
    "held",
    [claim_of(OLD, 5), claim_of(OLD, 5, deletionTimestamp="2026-01-01T00:00:00Z"),
     claim_of(OLD, 5, reserved=False), claim_of(OLD, 5, reserved=False, ownerReferences=[])],
    ids=["in use", "deleted in use", "not yet in use", "by hand"],
)  # fmt: skip
def test_what_others_have_is_refused(server: tuple[Server, ApiServer], held: Any) -> None:
    found, up = server
    found.there = {f"{CLAIMS}/{OLD}-c": held, f"{PODS}/{OLD}": pod_of(OLD)}
    with pytest.raises(KernelRefused, match=f"GPU-1 is given to claim bai/{OLD}-c"):
        give(up)


def test_what_is_removed_has_nothing_any_more_before_the_watch_tells_so(
    server: tuple[Server, ApiServer],
) -> None:
    found, up = server
    found.there = {f"{PODS}/{OLD}": pod_of(OLD), f"{CLAIMS}/{OLD}-c": claim_of(OLD, 5)}
    provider = KubernetesProvider(up.client(), Kubernetes())
    provider.observer.ledger.follow()
    assert found.watched.wait(60)
    assert [each.name for each in provider.observer.ledger.holders(DEVICES[0].key)] == [f"{OLD}-c"]
    provider.remove(OLD)
    assert provider.observer.ledger.holders(DEVICES[0].key) == ()
    provider.close()
