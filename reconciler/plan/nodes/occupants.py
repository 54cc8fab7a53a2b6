"""Who sits on a node, and whether a plan may make them leave. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from reconciler.plan.decide.drain import may_be_drained
from reconciler.plan.node_rollout import Occupant
from reconciler.provisioning.reasons import provision_reason
from reconciler.values.adoption import placement_of
from reconciler.values.documents.local_nodes import LOCAL_ADDRESSES
from reconciler.values.documents.service_replicas import replica_of
from reconciler.values.records import HOLDING
from reconciler.values.session_phase import ENDED, LIVE
from reconciler.values.state import Actual, Desired, Existing
from schemas.kinds.node import Node
from schemas.values.resource_ref import ref_of


def node_occupants(
    desired: Desired, actual: Actual, touched: frozenset[str], *, expanded: bool = True
) -> dict[str, tuple[Occupant, ...]]:
    """Node → who is there. `touched`: the sessions that this plan may change; `expanded`: whether what is
    desired holds the replicas that stay, so that one which is not among them goes now."""
    nodes = {node.name: node for node in desired.nodes}
    found: dict[str, list[Occupant]] = {}
    for existing in actual.existing.values():
        for node in sorted(occupied_nodes(existing)):
            one = _occupant(existing, nodes.get(node), desired, touched, expanded)
            found.setdefault(node, []).append(one)
    here = [node.name for node in desired.nodes if node.spec.address in LOCAL_ADDRESSES]
    for hold in actual.holds:
        for name in here or [hold.placement.node]:
            one = Occupant(hold.owner, "it belongs to another repository or cluster")
            found.setdefault(name, []).append(one)
    return {node: tuple(each) for node, each in found.items()}


def occupied_nodes(existing: Existing) -> frozenset[str]:
    """The nodes that kernels of a resource may be alive on."""
    live = {kernel.labels.node for kernel in (*existing.kernels, *existing.strays) if kernel.state in LIVE}
    for kernel in (*existing.kernels, *existing.strays):
        if kernel.state in LIVE and (part := placement_of(kernel.labels)) is not None:
            live.add(part.node)
    placement = existing.recorded.placement
    holds = existing.phase in HOLDING - ENDED or bool(existing.away)
    if placement is not None and holds:
        live |= {part.node for part in placement.kernels}
    return frozenset(live | {ghost.node for ghost in existing.recorded.ghosts})


def resources_to_evacuate(actual: Actual, chosen: Collection[str]) -> tuple[str, ...]:
    """The resources on those of the nodes among `chosen` identities that are to be provisioned."""
    provision_status = actual.provision_status
    names = {ref_of(one).name for one in chosen if ref_of(one).kind == "Node"}
    going = {
        name
        for name in names
        if provision_status is not None and provision_reason(provision_status, actual.provision_records, name)
    }
    return (
        tuple(each.id for each in actual.existing.values() if going & occupied_nodes(each)) if going else ()
    )


def _occupant(
    existing: Existing, node: Node | None, desired: Desired, touched: frozenset[str], expanded: bool
) -> Occupant:
    force = node is not None and node.spec.drain.force
    session = desired.sessions().get(existing.id)
    if existing.id not in touched:
        return Occupant(existing.id, "this plan leaves it alone")
    unseen = {*existing.away.values(), *(ghost.node for ghost in existing.recorded.ghosts)}
    if node is not None and node.name in unseen and not force:
        return Occupant(existing.id, "it may still run there, where nobody can ask")
    replica = replica_of(existing)
    service = replica.service if replica is not None and replica.service in desired.services else ""
    if service and not force and not (session is None and expanded):
        return Occupant(existing.id, f"{service} replaces it elsewhere first", service=service)
    if session is None:
        return Occupant(existing.id)
    if force or may_be_drained(session, existing):
        return Occupant(existing.id, moved=True)
    return Occupant(existing.id, "it may not be moved (`movable`, `preemptible`)")


def blocking_occupants(found: Mapping[str, tuple[Occupant, ...]], node: str) -> Iterator[Occupant]:
    """Those who keep a node from being emptied."""
    return (one for one in found.get(node, ()) if one.stays)
