"""What nodes are that declare no hardware: this machine is probed, others are as they were last seen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from pydantic import ValidationError

from reconciler.diff.snapshot import LOCAL_ADDRESSES
from schemas.hardware.model import Hardware
from schemas.node import Node

if TYPE_CHECKING:
    from reconciler.store import Store


def is_local(node: Node) -> bool:
    """Whether a node is this machine."""
    return (node.spec.address or node.name) in LOCAL_ADDRESSES


def find_hardware(
    nodes: Iterable[Node], store: Store | None, cluster: str, *, probe: bool
) -> Mapping[str, Hardware]:
    """Hardware by node name, of the nodes that do not declare theirs. Without `probe`, only what the store
    remembers."""
    wanted = [node for node in nodes if node.spec.hardware is None]
    if not wanted:
        return {}
    here = _probe() if probe and any(is_local(node) for node in wanted) else None
    seen = _remembered(store, cluster)
    found: dict[str, Hardware] = {}
    for node in wanted:
        if here is not None and is_local(node):
            found[node.name] = here
        elif node.name in seen:
            found[node.name] = seen[node.name]
    return found


def _probe() -> Hardware:
    from providers.probe import probe_local

    return probe_local()


def _remembered(store: Store | None, cluster: str) -> dict[str, Hardware]:
    """What the store knows; equal nodes share one value."""
    known: dict[str, Hardware | None] = {}
    observed = store.hardware(cluster) if store is not None else {}
    for each in observed.values():
        if each.hardware not in known:
            known[each.hardware] = _parsed(each.hardware)
    pairs = ((node, known[each.hardware]) for node, each in observed.items())
    return {node: hardware for node, hardware in pairs if hardware is not None}


def _parsed(text: str) -> Hardware | None:
    try:
        return Hardware.model_validate_json(text)
    except ValidationError:
        return None
