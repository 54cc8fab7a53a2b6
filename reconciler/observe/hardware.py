"""What nodes are that declare no hardware: this machine is probed each time, others once. Where nodes cannot
be asked themselves, what a document declares completes what is known of them otherwise.

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

from providers.abilities import ProbesHardware, ProbesOnRequest
from reconciler.observe.endpoints import is_local
from reconciler.values.documents.recorded_documents import recorded_resource
from reconciler.values.encoding.placement_json import canonical_json
from schemas.hardware.completion import complete
from schemas.hardware.model import Hardware
from schemas.kinds.node import Node

DOCUMENT, PROBE = "its document", "an earlier probe"
"""Who has told what completes a node's hardware."""

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
    declared: Mapping[str, Hardware] = field(default_factory=dict)
    """What documents say of nodes that were seen all the same; they stand in `hardware` as both together."""


def find_hardware(
    nodes: Iterable[Node],
    store: StoreReader | None,
    cluster: str,
    *,
    provider: Callable[[], Provider] | None = None,
    reprobe: bool = False,
) -> NodeHardware:
    """The nodes that do not declare theirs, and those whose documents only complete what is known of them.
    Without a provider nothing is probed; `reprobe` probes all nodes, and not only those that were never
    seen."""
    every = list(nodes)
    wanted = [node for node in every if node.spec.hardware is None]
    declared = {
        node.name: node.spec.hardware
        for node in every
        if node.spec.hardware is not None and not is_local(node)
    }
    completed = _completed(provider(), declared) if provider is not None and declared else NodeHardware()
    if not wanted:
        return completed
    seen = _recorded_hardware(store, cluster)
    known = {node.name: seen[node.name] for node in wanted if node.name in seen}
    if provider is None:
        return NodeHardware(known)
    local = frozenset(node.name for node in wanted if is_local(node))
    moved = _moved_nodes(wanted, store, cluster)
    same = frozenset() if reprobe else known.keys() - moved
    far = frozenset(node.name for node in wanted) - local - same
    before = {name: each for name, each in known.items() if name not in moved}
    remote, failed = _probe_remote(provider(), far, before) if far else ({}, {})
    here = dict.fromkeys(local, _probe_local()) if local else {}
    return NodeHardware(
        {**known, **remote, **here, **completed.hardware},
        remote,
        here,
        {**failed, **completed.failed},
        completed.declared,
    )


def probe_again(known: NodeHardware, provider: Provider, nodes: frozenset[str]) -> NodeHardware:
    """What is known, with these nodes as they are now."""
    mine = {name: each for name, each in known.declared.items() if name in nodes}
    completed = _completed(provider, mine) if mine else NodeHardware()
    far = nodes - mine.keys()
    found, failed = _probe_remote(provider, far, known.hardware) if far else ({}, {})
    return replace(
        known,
        hardware={**known.hardware, **found, **completed.hardware},
        remote={**known.remote, **found},
        failed={**known.failed, **failed, **completed.failed},
    )


def complete_probed(provider: Provider, found: Mapping[str, Hardware]) -> Mapping[str, Hardware]:
    """What to remember of nodes that somebody looked at closely: what plans rest on, which is no more than
    what can be given away there."""
    if not isinstance(provider, ProbesOnRequest):
        return found
    seen, _ = provider.hardware(frozenset(found))
    return {name: complete(seen[name], each, PROBE) for name, each in found.items() if name in seen}


def _completed(provider: Provider, declared: Mapping[str, Hardware]) -> NodeHardware:
    """Nodes as they are seen, and as their documents say where that tells more. Nothing where a provider asks
    nodes themselves: there a document takes the place of what they say."""
    if not isinstance(provider, ProbesOnRequest):
        return NodeHardware()
    seen, failed = provider.hardware(frozenset(declared))
    found = {name: complete(each, declared[name], DOCUMENT, declared=True) for name, each in seen.items()}
    return NodeHardware(found, failed=failed, declared=declared)


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
    provider: Provider, nodes: frozenset[str], before: Mapping[str, Hardware]
) -> tuple[Mapping[str, Hardware], Mapping[str, str]]:
    """`before`: what was known of them, which stays where nobody asks the nodes themselves."""
    if not isinstance(provider, ProbesHardware):
        return {}, {}
    found, failed = provider.hardware(nodes)
    if not isinstance(provider, ProbesOnRequest):
        return found, failed
    return {
        name: complete(each, before[name], PROBE) if name in before else each for name, each in found.items()
    }, failed


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
