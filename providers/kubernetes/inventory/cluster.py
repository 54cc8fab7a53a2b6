"""A whole cluster as documents. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from providers.kubernetes.inventory.counted import count_devices
from providers.kubernetes.inventory.documents import Document, document
from providers.kubernetes.inventory.held import ClusterDevices
from providers.kubernetes.inventory.nodes import import_nodes
from providers.kubernetes.inventory.read import ClusterObjects
from providers.kubernetes.inventory.session import AdoptablePod, ImportContext, read_session
from providers.kubernetes.inventory.tenancy import import_tenancy
from providers.kubernetes.observe.devices import devices_of
from schemas.kinds.parts.kubernetes import Kubernetes

_ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """`name`: of the Cluster; `group_by`: a label of nodes; `store`: a SecretStore; `owner`: as
    `labels.owner_hash` has it."""

    name: str
    kubernetes: Kubernetes
    group_by: str = ""
    store: str = ""
    owner: str = ""


@dataclass(frozen=True, slots=True)
class ImportedCluster:
    """`cluster`, `nodes`, `tenancy`: documents by their file; `refused`: `namespace/name` of pods → why they
    are no sessions; `elsewhere`: pods of other namespaces than sessions are made in."""

    cluster: tuple[Document, ...]
    nodes: tuple[Document, ...]
    tenancy: tuple[Document, ...]
    pods: tuple[AdoptablePod, ...]
    refused: Mapping[str, tuple[str, ...]]
    elsewhere: int
    left_out: Mapping[str, str]
    """Node → why."""
    notes: tuple[str, ...]
    context: ImportContext


def import_cluster(objects: ClusterObjects, options: ImportOptions) -> ImportedCluster:
    devices = devices_of(objects.slices)
    nodes = import_nodes(objects.nodes, devices, options.group_by)
    tenancy = import_tenancy(objects.namespaces, objects.quotas, options.kubernetes)
    counted = count_devices(objects.nodes, objects.pods, devices, options.kubernetes)
    known = ClusterDevices.of(objects.claims, devices, counted)
    context = ImportContext(nodes.groups, known, options.store, options.owner)
    found: list[AdoptablePod] = []
    refused: dict[str, tuple[str, ...]] = {}
    elsewhere = 0
    for pod in sorted(objects.pods, key=_key):
        namespace, name = _key(pod)
        if (pod.get("status") or {}).get("phase") in _ENDED:
            continue
        project = tenancy.projects.get(namespace)
        if project is None or options.kubernetes.namespace_of(project) != namespace:
            elsewhere += 1
            continue
        adoptable, why = read_session(pod, project, context)
        if adoptable is None:
            refused[f"{namespace}/{name}"] = why
        else:
            found.append(adoptable)
    spec = {"provider": "kubernetes", "kubernetes": options.kubernetes.options_set}
    return ImportedCluster(
        cluster=(document("Cluster", {"name": options.name}, spec), *nodes.group_documents),
        nodes=nodes.documents,
        tenancy=tenancy.documents,
        pods=tuple(found),
        refused=refused,
        elsewhere=elsewhere,
        left_out=nodes.left_out,
        notes=(*nodes.notes, *tenancy.notes),
        context=context,
    )


def _key(pod: Mapping[str, Any]) -> tuple[str, str]:
    return str(pod["metadata"].get("namespace") or ""), str(pod["metadata"]["name"])
