"""Everything that a placement depends on, put together for the planner. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from planner.types import KernelPlacement, NodeInfo, Placement, QuotaLimit, Running, SessionRequest, Snapshot
from reconciler.actual import Actual, Desired, Existing, Hold
from reconciler.diff.requests import (
    group_info,
    node_info,
    quota_limit,
    recorded_session,
    request,
    request_of,
)
from schemas.hardware.model import Hardware
from schemas.node import Node
from schemas.quota import Quota

LOCAL_ADDRESSES = frozenset({"localhost", "127.0.0.1", "::1"})


def node_hardware(node: Node, actual: Actual) -> Hardware | None:
    """What a node is: declared, else as found."""
    return node.spec.hardware or actual.hardware.get(node.name)


def node_infos(desired: Desired, actual: Actual) -> tuple[dict[str, NodeInfo], tuple[str, ...]]:
    """The nodes whose hardware is known, by name, and warnings about the others."""
    infos: dict[str, NodeInfo] = {}
    unknown: list[str] = []
    homeless: list[str] = []
    for node in desired.nodes:
        hardware, group = node_hardware(node, actual), desired.repository.group_of_node(node)
        if hardware is None:
            unknown.append(node.name)
        elif group is None:
            homeless.append(node.name)
        else:
            infos[node.name] = node_info(node, hardware, group)
    warnings = []
    if unknown:
        warnings.append(f"hardware unknown, nothing is placed there: {_some(unknown)}; probe or declare it")
    if homeless:
        warnings.append(f"in no resource group, nothing is placed there: {_some(homeless)}")
    return infos, tuple(warnings)


def _some(names: list[str]) -> str:
    shown = ", ".join(sorted(names)[:5])
    return shown + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def make_snapshot(
    desired: Desired,
    actual: Actual,
    nodes: Mapping[str, NodeInfo],
    running: Iterable[tuple[Existing, Placement]],
    pending: Iterable[SessionRequest],
    now: float,
    movable: Collection[str] = (),
) -> Snapshot:
    """The planner's input: what runs keeps its placement, what others hold counts as taken. Only `movable`
    sessions may be pushed out, if they are preemptible."""
    held = [_running(existing, placement, desired) for existing, placement in running]
    held = [one if one.request.id in movable else _fixed(one) for one in held]
    held += foreign(desired, actual.holds, nodes)
    known = set(nodes)
    return Snapshot(
        nodes=tuple(nodes[name] for name in sorted(nodes)),
        groups=tuple(group_info(group) for _, group in sorted(desired.groups.items())),
        quotas=_quotas(desired),
        running=tuple(each for each in held if all(part.node in known for part in each.placement.kernels)),
        pending=tuple(sorted(pending, key=lambda each: each.id)),
        now=now,
    )


def _quotas(desired: Desired) -> tuple[QuotaLimit, ...]:
    quotas = (item for item in desired.resources.values() if isinstance(item, Quota))
    return tuple(quota_limit(quota) for quota in quotas)


def _running(existing: Existing, placement: Placement, desired: Desired) -> Running:
    record = existing.recorded
    session = desired.sessions().get(existing.id)
    if session is None or desired.digests[existing.id] != record.digest:
        session = recorded_session(record.document)
    if session is None:
        wanted = request_of(placement, existing.id, placement.group)
    else:
        wanted = request(session, desired.repository, enqueued=record.enqueued_at or 0.0)
    wanted = replace(wanted, group=placement.group or wanted.group)
    return Running(wanted, replace(placement, group=wanted.group), record.started_at)


def _fixed(one: Running) -> Running:
    return replace(one, request=replace(one.request, preemptible=False))


def foreign(desired: Desired, holds: Iterable[Hold], nodes: Mapping[str, NodeInfo]) -> list[Running]:
    """What other owners' kernels hold, on the node that is the same machine: the local one, else the one of
    the same name."""
    local = [n.name for n in desired.nodes if n.spec.address in LOCAL_ADDRESSES]
    found = []
    for hold in holds:
        names = [name for name in local if name in nodes] or [hold.placement.node]
        for name in names:
            if name in nodes:
                found.append(_taken(hold, nodes[name]))
    return found


def _taken(hold: Hold, node: NodeInfo) -> Running:
    identity = f"Foreign/{hold.kernel}@{node.name}"
    placement = Placement(identity, node.group, (_on(hold.placement, node),))
    return Running(request_of(placement, identity, node.group), placement)


def _on(part: KernelPlacement, node: NodeInfo) -> KernelPlacement:
    """What of a foreign placement there is on this node."""
    numa = {each.id for each in node.hardware.numa_nodes}
    cpus = {cpu for each in node.hardware.numa_nodes for cpu in each.cpus}
    devices = {gpu.id for gpu in node.hardware.gpus}
    kept = tuple(each for each in part.memory_nodes if each in numa)
    return replace(
        part,
        node=node.name,
        cpus=tuple(cpu for cpu in part.cpus if cpu in cpus),
        memory_nodes=kept or (min(numa),),
        devices=tuple(grant for grant in part.devices if grant.id in devices),
        parts=tuple(each for each in part.parts if each.node in numa),
    )
