"""A scheduler that has chosen a device, and has not said so yet when bai looks a second time."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from providers.kubernetes.api.client import Object
from providers.kubernetes.objects.labels import KERNEL
from providers.kubernetes.objects.names import TAINT
from providers.kubernetes.observe import ledger
from providers.kubernetes.provider import KubernetesProvider
from schemas.kinds.parts.kubernetes import Kubernetes
from schemas.problems.errors.kernel import KernelRefused
from tests.providers.kubernetes.api_server import Answer, Request, event, listed, serving, status
from tests.providers.kubernetes.specs import ID, claim, gpu, kernel, node, resource_slice
from tests.waiting import until

DRIVER = "gpu.nvidia.com"


def waiting(name: str, **metadata: Any) -> Object:
    """A claim of somebody else that has no devices yet."""
    about = {"name": name, "namespace": "others", "uid": name, "resourceVersion": "5"}
    return {"metadata": {**about, **metadata}}


def decided(name: str, device: str, version: int) -> Object:
    """The same, once a scheduler has written what it has."""
    found = claim(name, device)
    found["metadata"] |= {"uid": name, "resourceVersion": str(version)}
    return found


@dataclass
class Cluster:
    """Answers of an API server with one node, n0, and its GPU."""

    claims: list[Object]
    taints: list[Object] = field(default_factory=list)
    version: int = 10
    lists: int = 0
    bound: bool = False
    made: Object = field(default_factory=dict)
    """The pod."""
    told: queue.Queue[Any] = field(default_factory=queue.Queue)
    """What watches of claims tell; None ends them."""

    def __call__(self, request: Request) -> Answer:
        kind = request.path.rpartition("/")[2]
        if request.method == "GET" and kind == "resourceclaims":
            return self.watched(request) if request.watches else self.listed_claims()
        if request.watches:
            return None
        if request.method == "GET" and "/resourceclaims/" in request.path:
            one = [each for each in self.claims if each["metadata"]["name"] == kind]
            return (200, one[0]) if one else status(404)
        if request.method == "GET" and kind in ("nodes", "resourceslices", "deviceclasses"):
            return listed(*self.objects(kind))
        if request.method == "POST" and kind == "pods":
            metadata = {"name": ID, "namespace": "bai", "uid": "pod", "resourceVersion": "11"}
            self.made = {"metadata": {**request.body["metadata"], **metadata}, "spec": request.body["spec"]}
            return 201, self.made
        if request.method == "POST" and kind == "resourceclaims":
            return 201, {**request.body, "metadata": {**request.body["metadata"], "resourceVersion": "12"}}
        if request.method == "PUT" and kind == "status":
            return 200, self.give(request.body)
        if request.method == "POST" and kind == "binding":
            self.bound = True
            return 201, {}
        return status(404)

    def objects(self, kind: str) -> list[Object]:
        about = {"name": DRIVER, "resourceVersion": "3"}
        slices = resource_slice(gpu(0), driver=DRIVER)
        return {
            "nodes": [node(taints=self.taints)],
            "resourceslices": [{"metadata": about, **slices}],
            "deviceclasses": [{"metadata": about, "spec": {}}],
        }[kind]

    def listed_claims(self) -> Answer:
        self.lists += 1
        return listed(*self.claims, version=self.version)

    def watched(self, request: Request) -> Answer:
        request.begin()
        while (said := self.told.get()) is not None:
            request.say(said)
        return None

    def give(self, body: Object) -> Object:
        """bai's claim has what it writes; watches are told."""
        given = {**body, "metadata": {**body["metadata"], "resourceVersion": "13"}}
        self.claims.append(given)
        self.version = 13
        self.told.put(event("MODIFIED", given))
        return given


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[Cluster, KubernetesProvider]]:
    found = Cluster([waiting("theirs")])
    with serving(tmp_path, found) as server:
        provider = KubernetesProvider(server.client(), Kubernetes(namespace="bai"))
        yield found, provider
        provider.close()
        for _ in range(4):
            found.told.put(None)


def make(provider: KubernetesProvider) -> None:
    provider.create(kernel(devices=("GPU-0",)))


def test_a_device_that_a_scheduler_had_chosen_before_is_left_to_it(
    cluster: tuple[Cluster, KubernetesProvider], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It writes while bai waits, and the watch has not told it when that is over."""
    monkeypatch.setattr(ledger, "SETTLE", 0.0)
    found, provider = cluster
    give = found.give

    def both(body: Object) -> Object:
        given = give(body)
        found.claims[0] = decided("theirs", "gpu-0", 14)
        found.version = 14
        return given

    monkeypatch.setattr(found, "give", both)
    with pytest.raises(KernelRefused, match="GPU-0 is given to claim others/theirs"):
        make(provider)
    assert not found.bound


class Clock:
    """It stands still: who waits does so until what it waits for is so."""

    asked = 0

    def monotonic(self) -> float:
        self.asked += 1
        return 0.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(ledger, "time", found)
    return found


def test_who_takes_another_one_keeps_nobody_waiting(
    cluster: tuple[Cluster, KubernetesProvider], clock: Clock
) -> None:
    found, provider = cluster
    found.claims += [waiting("goes"), waiting("going", deletionTimestamp="2026-01-01T12:00:00Z")]
    found.claims.append(waiting("ours", namespace="bai", labels={KERNEL: "another"}))
    making = threading.Thread(target=make, args=(provider,))
    making.start()
    until(lambda: clock.asked >= 2, "it waits")
    found.told.put(event("DELETED", waiting("goes", resourceVersion="14")))
    until(lambda: clock.asked >= 3, "it waits for the other one")
    assert not found.bound
    found.told.put(event("MODIFIED", decided("theirs", "gpu-7", 15)))
    until(lambda: not making.is_alive(), "it is made")
    assert found.bound and found.lists == 1


def test_claims_of_later_are_not_waited_for(
    cluster: tuple[Cluster, KubernetesProvider], clock: Clock
) -> None:
    """Whoever chooses for them sees what bai has."""
    found, provider = cluster
    making = threading.Thread(target=make, args=(provider,))
    making.start()
    until(lambda: clock.asked >= 2, "it waits")
    assert not found.bound
    found.told.put(event("ADDED", waiting("later", resourceVersion="14")))
    found.told.put(event("MODIFIED", decided("theirs", "gpu-7", 15)))
    until(lambda: not making.is_alive(), "it is made")
    assert found.bound and found.lists == 1


def test_nothing_is_waited_for_where_nobody_else_chooses(
    cluster: tuple[Cluster, KubernetesProvider], clock: Clock
) -> None:
    found, provider = cluster
    found.taints.append({"key": TAINT, "effect": "NoSchedule"})
    make(provider)
    assert found.bound and found.lists == 1 and not clock.asked
