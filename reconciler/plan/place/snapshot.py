"""Everything that a placement depends on, put together for the planner. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from planner.model.types import (
    KernelPlacement,
    NodeInfo,
    Placement,
    QuotaLimit,
    Running,
    SessionRequest,
    Snapshot,
)
from reconciler.plan.decide.node_health import without_unfit_gpus
from reconciler.plan.decide.withdrawn_devices import withdrawn_reason, without_withdrawn_devices
from reconciler.plan.planner_values import (
    group_info,
    node_info,
    outside_limit,
    quota_limit,
    request_of_placement,
    session_request,
)
from reconciler.provisioning.reasons import unready_reason
from reconciler.values.adoption import placement_of
from reconciler.values.documents.local_nodes import LOCAL_ADDRESSES
from reconciler.values.documents.recorded_documents import recorded_session
from reconciler.values.session_phase import LIVE
from reconciler.values.state import Actual, Desired, Existing, ForeignHold
from reconciler.values.times import format_time
from schemas.hardware.completion import contradictions
from schemas.hardware.model import Hardware
from schemas.kinds.node import Node
from schemas.kinds.quota import Quota
from schemas.values.once_per_value import once_per_value


def node_hardware(node: Node, actual: Actual) -> Hardware | None:
    """What a node is: as found, which is together with its document where both count, else declared."""
    return actual.hardware.get(node.name) or node.spec.hardware


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
            info = without_unfit_gpus(node_info(node, hardware, group), actual.health.get(node.name))
            info = without_withdrawn_devices(info, actual.offered)
            infos[node.name] = _with_observed_state(info, actual)
    warnings = []
    silent = [name for name in unknown if name not in actual.unprobed]
    if silent:
        warnings.append(
            f"hardware unknown, nothing is placed there: {_join_names(silent)}; probe or declare it"
        )
    warnings += _unprobed_warnings(unknown, actual.unprobed, actual.missed)
    warnings += _withdrawn_warnings(infos.values(), actual)
    warnings += _contradicted_documents(desired.nodes, actual)
    if homeless:
        warnings.append(f"in no resource group, nothing is placed there: {_join_names(homeless)}")
    return infos, tuple(warnings)


def _unprobed_warnings(
    unknown: Collection[str], failed: Mapping[str, str], missed: Collection[str]
) -> Iterator[str]:
    """One sentence for each reason; nodes that fail alike are told together."""
    nodes: dict[tuple[bool, str], list[str]] = {}
    for node, why in sorted(failed.items()):
        # Why a node cannot be reached is told once, where the nodes that cannot be asked are.
        reason = "out of reach" if node in missed else why
        nodes.setdefault((node in unknown, reason), []).append(node)
    for (never, why), names in nodes.items():
        so = "hardware unknown, nothing is placed there" if never else "planned as last seen"
        yield f"{_join_names(names)} could not be probed, {so}: {why}"


def _withdrawn_warnings(nodes: Iterable[NodeInfo], actual: Actual) -> Iterator[str]:
    """One for each reason why nodes take nothing new; of GPUs alone it is said with the health of nodes."""
    if actual.offered is None:
        return
    names: dict[str, list[str]] = {}
    for node in nodes:
        if why := withdrawn_reason(node.name, actual.hardware.get(node.name), actual.offered):
            names.setdefault(why, []).append(node.name)
    for why, found in names.items():
        yield f"nothing new is placed on {_join_names(found)}: {why}"


def _contradicted_documents(nodes: Iterable[Node], actual: Actual) -> Iterator[str]:
    """Documents that say of a node what is seen to be otherwise."""
    for node in nodes:
        seen, told = actual.hardware.get(node.name), node.spec.hardware
        if seen is not None and told is not None and (doubts := contradictions(seen, told)):
            yield f"the document of {node.name} says {'; '.join(doubts)}: what is seen counts"


def _with_observed_state(info: NodeInfo, actual: Actual) -> NodeInfo:
    """A node that cannot be reached takes nothing new, nor does one that is not provisioned yet."""
    missed = actual.missed.get(info.name)
    if info.state == "drained":
        return info
    if why := unready_reason(actual.provision_status, actual.provision_records, info.name):
        return replace(info, state="unprovisioned", note=why)
    if missed is None:
        why = actual.cordoned.get(info.name) or withdrawn_reason(
            info.name, actual.hardware.get(info.name), actual.offered
        )
        return replace(info, state="cordoned", note=why) if why and info.state == "active" else info
    since = f"since {format_time(missed.since)}: " if missed.since is not None else ""
    return replace(info, state="unreachable", note=f"{since}{missed.why}")


def _join_names(names: list[str]) -> str:
    shown = ", ".join(sorted(names)[:5])
    return shown + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def make_snapshot(
    desired: Desired,
    actual: Actual,
    nodes: Mapping[str, NodeInfo],
    running: Iterable[Running],
    pending: Iterable[SessionRequest],
    now: float,
) -> Snapshot:
    """The planner's input: what runs keeps its placement, what others hold counts as taken."""
    others = [*foreign_holds(desired, actual.holds, nodes), *_left_over_holds(actual, nodes)]
    return Snapshot(
        nodes=tuple(nodes[name] for name in sorted(nodes)),
        groups=tuple(group_info(group) for _, group in sorted(desired.groups.items())),
        quotas=_quotas(desired, actual),
        running=(*running, *(_on_known_nodes(each, nodes) for each in others)),
        pending=tuple(sorted(pending, key=lambda each: each.id)),
        now=now,
        usage={user: balance.decayed(now) for user, balance in actual.balances.items()},
    )


def _quotas(desired: Desired, actual: Actual) -> tuple[QuotaLimit, ...]:
    """Those of the documents, and what others hold projects to."""
    quotas = (item for item in desired.resources.values() if isinstance(item, Quota))
    return (
        *(quota_limit(quota) for quota in quotas),
        *(outside_limit(quota, desired.cluster) for quota in actual.outside_quotas),
    )


def running_session(
    existing: Existing,
    placement: Placement,
    desired: Desired,
    nodes: Mapping[str, NodeInfo],
    *,
    movable: bool = False,
) -> Running:
    """A session that holds something, on the nodes that are planned with. It may be pushed out only if it is
    `movable`, and preemptible."""
    found = _as_recorded(existing, placement, desired)
    if placement.lent and not found.request.preemptible:
        # What its document says by now counts from its next start: it was lent the place as one that goes.
        found = replace(found, request=replace(found.request, preemptible=True))
    return _on_known_nodes(found if movable else _not_preemptible(found), nodes)


def _as_recorded(existing: Existing, placement: Placement, desired: Desired) -> Running:
    record = existing.recorded
    session = desired.sessions().get(existing.id)
    if session is None or desired.digests[existing.id] != record.digest:
        session = recorded_session(record.document)
    if session is None:
        wanted = request_of_placement(placement, existing.id, placement.group)
    else:
        wanted = session_request(session, desired.repository, enqueued=record.enqueued_at or 0.0)
    if placement.group and placement.group != wanted.group:
        wanted = replace(wanted, group=placement.group)
    elif placement.group != wanted.group:
        placement = replace(placement, group=wanted.group)
    return Running(wanted, placement, record.started_at)


def _on_known_nodes(one: Running, nodes: Mapping[str, NodeInfo]) -> Running:
    """What it holds on the nodes that are planned with; its quotas count all that it asked for."""
    kernels = tuple(part for part in one.placement.kernels if part.node in nodes)
    if len(kernels) == len(one.placement.kernels):
        return one
    return replace(one, placement=replace(one.placement, kernels=kernels))


def _not_preemptible(one: Running) -> Running:
    return replace(one, request=replace(one.request, preemptible=False)) if one.request.preemptible else one


def foreign_holds(
    desired: Desired, holds: Iterable[ForeignHold], nodes: Mapping[str, NodeInfo]
) -> list[Running]:
    """What other owners' kernels hold, on the node that is the same machine: the local one, else the one of
    the same name."""
    local = [n.name for n in desired.nodes if n.spec.address in LOCAL_ADDRESSES]
    found = []
    for hold in holds:
        names = [name for name in local if name in nodes] or [hold.placement.node]
        for name in names:
            if name in nodes:
                found.append(_running_holder(hold, nodes[name]))
    return found


def _left_over_holds(actual: Actual, nodes: Mapping[str, NodeInfo]) -> Iterator[Running]:
    """What live kernels of earlier generations sit on until they are gone, and those whose update failed."""
    for existing in actual.existing.values():
        for hold in _holds_beyond_record(existing):
            if hold.placement.node in nodes:
                yield _running_holder(hold, nodes[hold.placement.node])


@once_per_value
def _holds_beyond_record(existing: Existing) -> tuple[ForeignHold, ...]:
    placement = existing.recorded.placement
    decided = {part.kernel: part for part in placement.kernels} if placement else {}
    found = []
    for kernel in existing.kernels:
        part = placement_of(kernel.labels) if kernel.state in LIVE else None
        more = _held_beyond(part, decided.get(kernel.labels.kernel)) if part else None
        if more is not None:
            found.append(ForeignHold(kernel.id, existing.id, more))
    for kernel in existing.strays:
        part = placement_of(kernel.labels) if kernel.state in LIVE else None
        if part is not None:
            found.append(ForeignHold(kernel.id, existing.id, part))
    return tuple(found)


def _held_beyond(has: KernelPlacement, decided: KernelPlacement | None) -> KernelPlacement | None:
    """The cores and devices that a kernel has beside what was decided for it; None when there are none.

    All of them where nothing is: a deleted session came back with its node, and its record holds nothing."""
    if decided is None:
        return has
    if decided.node != has.node:
        return None
    own = frozenset(decided.cpus)
    cpus = tuple(cpu for cpu in has.cpus if cpu not in own)
    known = {grant.id for grant in decided.devices}
    devices = tuple(grant for grant in has.devices if grant.id not in known)
    if not cpus and not devices:
        return None
    milli = max(0, has.cpu_milli - decided.cpu_milli)
    return replace(has, cpus=cpus, cpu_milli=milli, memory=0, devices=devices, parts=(), hugepages=())


def _running_holder(hold: ForeignHold, node: NodeInfo) -> Running:
    identity = f"Foreign/{hold.kernel}@{node.name}"
    placement = Placement(identity, node.group, (_part_on_node(hold.placement, node),))
    return Running(request_of_placement(placement, identity, node.group), placement)


def _part_on_node(part: KernelPlacement, node: NodeInfo) -> KernelPlacement:
    """What of a foreign placement there is on this node."""
    numa = {each.id for each in node.hardware.numa_nodes}
    cpus = {cpu for each in node.hardware.numa_nodes for cpu in each.cpus}
    devices = {gpu.id: f"{gpu.slot}.device" for gpu in node.hardware.gpus}
    devices |= {
        instance.id: f"{gpu.slot}.mig.{instance.profile}"
        for gpu in node.hardware.gpus
        for instance in gpu.mig_devices
    }
    kept = tuple(each for each in part.memory_nodes if each in numa)
    everywhere = tuple(sorted(numa)) if not part.memory_nodes else (min(numa),)
    return replace(
        part,
        node=node.name,
        cpus=tuple(cpu for cpu in part.cpus if cpu in cpus),
        memory_nodes=kept or everywhere,
        devices=tuple(
            replace(grant, slot=grant.slot or devices[grant.id])
            for grant in part.devices
            if grant.id in devices
        ),
        parts=tuple(each for each in part.parts if each.node in numa),
        hugepages=tuple(each for each in part.hugepages if each.node is None or each.node in numa),
    )
