"""What nodes are that declare no hardware: this machine is probed each time, others once.

Others are as they were last seen, which the store keeps. They are probed when the store knows nothing of
them, when their document sends bai elsewhere than the one that was applied, and when somebody asks for it: a
plan does not look at machines that it knows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from pydantic import ValidationError

from providers.abilities import ProbesHardware
from reconciler.observe.endpoints import is_local
from reconciler.values.documents.recorded_documents import recorded_resource
from reconciler.values.encoding.placement_json import canonical_json
from schemas.hardware.model import Hardware
from schemas.kinds.node import Node

if TYPE_CHECKING:
    from collections.abc import Callable

    from providers.base import Provider
    from reconciler.store.reader import StoreReader
    from reconciler.store.store import Store


@dataclass(frozen=True, slots=True)
class NodeHardware:
    """Hardware by node name. `remote` was probed on other machines just now, `local` on this one; of
    `failed`, the attempt failed: node → why. A node that failed may still have the hardware that was seen
    before."""

    hardware: Mapping[str, Hardware] = field(default_factory=dict)
    remote: Mapping[str, Hardware] = field(default_factory=dict)
    local: Mapping[str, Hardware] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)


def find_hardware(
    nodes: Iterable[Node],
    store: StoreReader | None,
    cluster: str,
    *,
    provider: Callable[[], Provider] | None = None,
    reprobe: bool = False,
) -> NodeHardware:
    """The nodes that do not declare theirs. Without a provider nothing is probed; `reprobe` probes all nodes,
    and not only those that were never seen."""
    wanted = [node for node in nodes if node.spec.hardware is None]
    if not wanted:
        return NodeHardware()
    seen = _recorded_hardware(store, cluster)
    known = {node.name: seen[node.name] for node in wanted if node.name in seen}
    if provider is None:
        return NodeHardware(known)
    local = frozenset(node.name for node in wanted if is_local(node))
    same = frozenset() if reprobe else known.keys() - _moved_nodes(wanted, store, cluster)
    far = frozenset(node.name for node in wanted) - local - same
    remote, failed = _probe_remote(provider(), far) if far else ({}, {})
    here = dict.fromkeys(local, _probe_local()) if local else {}
    return NodeHardware({**known, **remote, **here}, remote, here, failed)


def probe_again(known: NodeHardware, provider: Provider, nodes: frozenset[str]) -> NodeHardware:
    """What is known, with these nodes as they are now."""
    found, failed = _probe_remote(provider, nodes)
    return replace(
        known,
        hardware={**known.hardware, **found},
        remote={**known.remote, **found},
        failed={**known.failed, **failed},
    )


def _moved_nodes(nodes: Iterable[Node], store: StoreReader | None, cluster: str) -> frozenset[str]:
    """Those whose document now leads to another machine, perhaps, than the one that was applied last."""
    applied = store.recorded(cluster, "Node") if store is not None else {}
    found = set()
    for node in nodes:
        record = applied.get(node.identity)
        before = (
            _applied_address(node.identity, canonical_json(record.document)) if record is not None else None
        )
        if before is not None and before != _address_of(node):
            found.add(node.name)
    return frozenset(found)


@lru_cache(8192)
def _applied_address(identity: str, document: str) -> tuple[object, ...] | None:
    """Kept by text, for a loop asks for the same nodes in every pass."""
    node = recorded_resource(identity, json.loads(document))
    return _address_of(node) if isinstance(node, Node) else None


def _address_of(node: Node) -> tuple[object, ...]:
    return (node.spec.address or node.name, node.spec.ssh.port, node.spec.docker.options_set)


def _probe_remote(
    provider: Provider, nodes: frozenset[str]
) -> tuple[Mapping[str, Hardware], Mapping[str, str]]:
    return provider.hardware(nodes) if isinstance(provider, ProbesHardware) else ({}, {})


def _probe_local() -> Hardware:
    from providers.probe import probe_local

    return probe_local()


def record_hardware(store: Store, cluster: str, found: Mapping[str, Hardware], now: float) -> tuple[str, ...]:
    """Write down what was seen; gives the nodes that are not what they were, or are new."""
    known = store.hardware(cluster)
    changed = []
    for node, hardware in found.items():
        text = hardware.model_dump_json(by_alias=True, exclude_defaults=True)
        if node not in known or known[node].hardware != text:
            store.save_hardware(cluster, node, text, now)
            changed.append(node)
    return tuple(changed)


def _recorded_hardware(store: StoreReader | None, cluster: str) -> dict[str, Hardware]:
    """What the store knows; equal nodes share one value."""
    observed = store.hardware(cluster) if store is not None else {}
    pairs = ((node, _parse_hardware(each.hardware)) for node, each in observed.items())
    return {node: hardware for node, hardware in pairs if hardware is not None}


@lru_cache(4096)
def _parse_hardware(text: str) -> Hardware | None:
    try:
        return Hardware.model_validate_json(text)
    except ValidationError:
        return None
