"""Nodes and the groups that they are of, as documents. Pure.

What a node is (cores, memory, devices), and whether it is ready, cordoned or tainted, is asked of the cluster
with every plan, and stands in no document.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from providers.kubernetes.inventory.documents import Document, document
from providers.kubernetes.objects.device import Device
from providers.kubernetes.objects.names import PREFIX, TAINT
from schemas.values.names import NODE_PATTERN, suggest_name

_NAME = re.compile(NODE_PATTERN.removesuffix("$") + r"\Z")
WITHOUT_GPUS = "cpu"
"""The group of nodes that have none."""
_PRODUCT = "nvidia.com/gpu.product"
"""The label of NVIDIA's GPU feature discovery."""
_CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
_KEPT = (_PRODUCT, "topology.kubernetes.io/region", "topology.kubernetes.io/zone")
_MACHINE_WRITTEN = ("kubernetes.io", "k8s.io", "nvidia.com", "amd.com", "intel.com", PREFIX.rstrip("/"))
"""Domains whose labels programs write on nodes, dozens of them."""


@dataclass(frozen=True, slots=True)
class ImportedNodes:
    groups: Mapping[str, str]
    """Node → its ResourceGroup."""
    documents: tuple[Document, ...]
    group_documents: tuple[Document, ...]
    left_out: Mapping[str, str]
    """Node → why it is none of bai's."""
    notes: tuple[str, ...]


def import_nodes(
    nodes: Iterable[Mapping[str, Any]], devices: Iterable[Device], group_by: str = ""
) -> ImportedNodes:
    """`group_by`: a label of nodes, whose value names their group; empty: the product of their GPUs does."""
    products: dict[str, set[str]] = {}
    for each in devices:
        if name := each.attributes.get("productName"):
            products.setdefault(each.node, set()).add(str(name))
    groups, documents, left_out, open_to = {}, [], {}, set()
    for node in sorted(nodes, key=lambda each: str(each["metadata"]["name"])):
        name, labels = str(node["metadata"]["name"]), node["metadata"].get("labels") or {}
        taints = [each for each in (node.get("spec") or {}).get("taints") or () if each.get("key") != TAINT]
        keys = [str(each.get("key")) for each in taints if each.get("effect") == "NoSchedule"]
        if not _NAME.match(name):
            left_out[name] = "its name has a part of more than 63 characters"
            continue
        if any(key in _CONTROL_PLANE for key in keys):
            left_out[name] = "of the control plane, whose taint keeps pods away"
            continue
        open_to.update(keys)
        groups[name] = _group(labels, products.get(name, set()), group_by)
        spec: dict[str, Any] = {"resourceGroup": groups[name]}
        if kept := _kept_labels(labels, group_by):
            spec["labels"] = kept
        documents.append(document("Node", {"name": name}, spec))
    return ImportedNodes(
        groups,
        tuple(documents),
        tuple(document("ResourceGroup", {"name": group}, {}) for group in sorted(set(groups.values()))),
        left_out,
        tuple(
            f"nodes with the taint {key} take sessions: their documents name them" for key in sorted(open_to)
        ),
    )


def _group(labels: Mapping[str, Any], products: set[str], group_by: str) -> str:
    if group_by:
        return suggest_name(str(labels.get(group_by) or "")) or "other"
    return suggest_name(" ".join(sorted(products)) or str(labels.get(_PRODUCT) or "")) or WITHOUT_GPUS


def _kept_labels(labels: Mapping[str, Any], group_by: str) -> dict[str, str]:
    """Those that people have given, and the few others by which people select."""
    return {
        str(key): str(value)
        for key, value in sorted(labels.items())
        if key in (*_KEPT, group_by) or not _is_machine_written(str(key))
    }


def _is_machine_written(key: str) -> bool:
    domain = key.rpartition("/")[0]
    return any(domain == each or domain.endswith(f".{each}") for each in _MACHINE_WRITTEN)
