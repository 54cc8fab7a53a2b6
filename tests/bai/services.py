"""A service as values, put where a loop and a plan would put it; its replicas are sessions that run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from reconciler.store.store import Store
from reconciler.values.plan import Plan
from reconciler.values.records import PutRecord, Recorded
from reconciler.values.services.pattern import GENERATION_LABEL, SERVICE_LABEL
from reconciler.values.services.state import ServiceGeneration, ServiceState
from reconciler.values.services.status import ReplicaStatus, ServiceStatus
from reconciler.values.state import Desired
from reconciler.workspace.workspace import Workspace
from tests.bai.web.lab import Lab
from tests.reconciler.lab import session

CHAT = "Service/p/chat"
OLD, NEW = "3f9c2a1b", "9d01aa42"
OLD_COMMIT, NEW_COMMIT = "a" * 40, "b" * 40
REPLICAS = (f"chat-{OLD}-1", f"chat-{OLD}-2", f"chat-{NEW}-1")
STATE = ServiceState(
    (
        ServiceGeneration("0badcafe", {}, "c" * 40, 1_799_000_000.0),
        ServiceGeneration(OLD, {}, OLD_COMMIT, 1_799_900_000.0),
        ServiceGeneration(NEW, {}, NEW_COMMIT, 1_799_999_000.0),
    ),
    stable=OLD,
    failed={"0badcafe": "no replica got ready in 10m"},
)
STATUS = ServiceStatus(
    CHAT, 2, NEW, NEW, OLD, "progressing", "",
    (
        ReplicaStatus(f"Session/p/{REPLICAS[0]}", OLD, "ready", 1.0),
        ReplicaStatus(f"Session/p/{REPLICAS[1]}", OLD, "leaving", 0.0, "makes way"),
        ReplicaStatus(f"Session/p/{REPLICAS[2]}", NEW, "starting", 0.0, "not ready: HTTP status 503"),
        ReplicaStatus(f"Session/p/chat-{NEW}-2", NEW, "waiting", 0.0, "no GPU is free"),
    ),
)  # fmt: skip


def complete(status: ServiceStatus = STATUS) -> ServiceStatus:
    """Both replicas are of the new generation, and ready."""
    names = (f"Session/p/chat-{NEW}-{number}" for number in (1, 2))
    replicas = tuple(ReplicaStatus(each, NEW, "ready", 1.0) for each in names)
    return replace(status, stable=NEW, phase="complete", replicas=replicas)


def run_replicas(lab: Lab, names: Sequence[str] = REPLICAS) -> None:
    """Sessions that run, and that the store has as replicas; the service is recorded with them."""
    for name in names:
        lab.write(name, session(name, "resources: {cpu: 1, memory: 1GiB}"))
    for _ in range(2):
        lab.once()
    store, cluster = lab.workspace.store, lab.workspace.cluster.name
    with _writing(store, cluster) as write:
        write([as_replica(each) for name, each in store.recorded(cluster).items() if "/chat-" in name])
        write([Recorded(CHAT, cluster, 2, "d2", {"kind": "Service"}, service=STATE)])


def as_replica(record: Recorded) -> Recorded:
    """With the labels that bai gives replicas."""
    metadata: Any = dict(record.document["metadata"])  # type: ignore[call-overload]
    service, generation, _ = str(metadata["name"]).rsplit("-", 2)
    labels = {SERVICE_LABEL: service, GENERATION_LABEL: generation}
    return replace(record, document={**record.document, "metadata": {**metadata, "labels": labels}})


class _writing:
    def __init__(self, store: Store, cluster: str) -> None:
        self._store, self._lease = store, store.acquire(cluster, "test", 60, 1_800_000_000.0)

    def __enter__(self) -> Any:
        return lambda records: self._store.write(self._lease, [PutRecord(each) for each in records])

    def __exit__(self, *_: object) -> None:
        self._store.release(self._lease)


def publish(lab: Lab, status: ServiceStatus = STATUS) -> None:
    """As if the last pass had planned this."""
    (cluster,) = lab.hub.clusters.values()
    done = cluster.good
    assert done is not None and done.plan is not None and done.desired is not None
    desired = _with_chat(done.desired)
    # Nobody has written replicas: what they are is on record alone.
    written = {name: one for name, one in desired.documents.items() if "/chat-" not in name}
    desired = replace(desired, documents=written)
    cluster.publish(
        replace(
            done, desired=desired, actual=lab.workspace.actual(), result=None, study=None,
            plan=replace(done.plan, services=(status,)),
        )
    )  # fmt: skip


def _with_chat(desired: Desired) -> Desired:
    digests, documents = {**desired.digests, CHAT: "d2"}, {**desired.documents, CHAT: {"kind": "Service"}}
    return replace(desired, digests=digests, documents=documents)


def plan_services(patch: pytest.MonkeyPatch, status: ServiceStatus = STATUS) -> None:
    """As if every plan came to this."""
    make, desired = Workspace.plan, Workspace.desired

    def plan(self: Workspace, *arguments: Any, **options: Any) -> Plan:
        return replace(make(self, *arguments, **options), services=(status,))

    def wanted(self: Workspace) -> Any:
        return _with_chat(desired(self))

    patch.setattr(Workspace, "plan", plan)
    patch.setattr(Workspace, "desired", wanted)
