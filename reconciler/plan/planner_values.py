"""Documents → the planner's words: nodes, groups, quotas and session requests. Pure."""

from __future__ import annotations

from typing import Literal

from planner.model.huge_pages import bytes_by_slot
from planner.model.service_replica import ServiceReplica
from planner.model.types import (
    Fractional,
    GroupInfo,
    KernelRequest,
    NodeInfo,
    NodeReservation,
    Placement,
    PreemptionRule,
    QuotaLimit,
    SessionRequest,
    SlotMap,
)
from providers.foreign_use import OutsideQuota
from reconciler.values.documents.session_subjects import session_domain, session_user
from reconciler.values.services.pattern import SPREAD_ANNOTATION, service_of
from schemas.hardware.model import Hardware
from schemas.kinds.node import Node
from schemas.kinds.quota import Quota
from schemas.kinds.resource_group import ResourceGroup
from schemas.kinds.session import Session
from schemas.repository.repository import Repository
from schemas.repository.storage_nodes import nodes_with_volumes
from schemas.values.envelope import GENERATION_LABEL
from schemas.values.once_per_value import last_per_value
from schemas.values.quantities import is_exclusive


def node_info(node: Node, hardware: Hardware, group: str) -> NodeInfo:
    return NodeInfo(
        name=node.name,
        hardware=hardware,
        group=group,
        state=node.spec.state,
        labels={**node.metadata.labels, **node.spec.labels},
        reserved_cpus=node.spec.reserved.cpus,
        reserved_memory=node.spec.reserved.memory,
        unhealthy=frozenset(gpu.id for gpu in hardware.gpus if not gpu.healthy),
    )


def group_info(group: ResourceGroup) -> GroupInfo:
    spec = group.spec
    options = spec.queue_options
    return GroupInfo(
        name=group.name,
        queue=spec.queue,
        queue_options={
            **options.plugin,
            "maxSkips": options.max_skips,
            "pendingTimeout": options.pending_timeout,
            "backfill": options.backfill,
            "weights": dict(options.weights),
            "hierarchy": options.hierarchy,
            **({} if options.half_life is None else {"halfLife": options.half_life}),
        },
        selection=spec.selection,
        packing=spec.packing,
        packing_time_limit=spec.packing_time_limit,
        numa=spec.numa,
        fractional=fractional(group),
        gpudirect_storage=spec.gpu_direct_storage,
        allowed_types=None if spec.allowed_types is None else frozenset(spec.allowed_types),
        allowed_projects=None if spec.allowed_projects is None else frozenset(spec.allowed_projects),
        preemption=_preemption_rule(group),
        held_percent=spec.headroom.percent,
        held_most=spec.headroom.total.slots,
        reservations=tuple(
            NodeReservation(
                kept.name,
                frozenset(kept.nodes),
                frozenset(kept.projects),
                kept.starts_at.timestamp(),
                kept.ends_at.timestamp(),
            )
            for kept in spec.reservations
        ),
    )


def _preemption_rule(group: ResourceGroup) -> PreemptionRule | None:
    rule = group.spec.preemption
    return PreemptionRule(float(rule.minimum_run_time)) if rule.mode == "priority" else None


def fractional(group: ResourceGroup) -> Fractional:
    rule = group.spec.fractional
    return Fractional(rule.shares_per_device, rule.quantum, rule.spread, rule.enforcement)


def quota_limit(quota: Quota) -> QuotaLimit:
    spec = quota.spec
    kind, subject = spec.subject.kind_and_name
    return QuotaLimit(
        name=quota.name,
        subject_kind=kind,
        subject=subject,
        group=spec.resource_group,
        slots=spec.total.slots,
        per_session=spec.per_session.slots,
        unspecified=spec.unspecified,
        concurrent=spec.concurrent_sessions,
        pending=spec.pending_sessions,
        kernels_per_session=spec.containers_per_session,
        max_priority=spec.max_priority,
        max_lifetime=spec.max_lifetime,
        cohort=spec.cohort,
        borrowing=None if spec.borrowing is None else spec.borrowing.slots,
    )


def outside_limit(quota: OutsideQuota, cluster: str) -> QuotaLimit:
    """A limit of somebody else's; `cluster`: whose all projects are, where it is not one's alone."""
    kind: Literal["project", "cluster"] = "project" if quota.project else "cluster"
    return QuotaLimit(
        quota.name,
        kind,
        quota.project or cluster,
        slots=quota.hard,
        others=quota.others,
        per_kernel=quota.most,
        per_kernel_least=quota.least,
    )


def session_request(
    session: Session,
    repository: Repository,
    *,
    enqueued: float = 0.0,
    skips: int = 0,
    blocked_by: tuple[str, ...] = (),
    architectures: frozenset[str] = frozenset(),
) -> SessionRequest:
    """A session as the planner sees it; for the same session and the same of all else the same object."""
    return _session_request(
        session,
        session_domain(session, repository),
        session_user(session, repository),
        designated_nodes(session, repository),
        (enqueued, skips, blocked_by, architectures),
    )


@last_per_value
def _session_request(
    session: Session,
    domain: str,
    user: str,
    designated: frozenset[str],
    state: tuple[float, int, tuple[str, ...], frozenset[str]],
) -> SessionRequest:
    enqueued, skips, blocked_by, architectures = state
    spec = session.spec
    containers = spec.containers
    cpus = [container.resources.cpu or 0 for container in containers]
    return SessionRequest(
        id=session.identity,
        group=spec.resource_group or "",
        kernels=tuple(KernelRequest(c.name, c.role, c.index, c.resources.slots) for c in containers),
        multi_node=spec.cluster.mode == "multi-node",
        type=spec.type,
        domain=domain,
        project=session.metadata.project,
        user=user,
        priority=spec.priority,
        enqueued=enqueued,
        starts_at=spec.starts_at.timestamp() if spec.starts_at else None,
        timeout=float(spec.timeout) if spec.timeout is not None else None,
        numa=spec.numa,
        exclusive_cpus=all(is_exclusive(cpu) for cpu in cpus),
        designated=designated,
        gpu_models=frozenset(spec.placement.gpu_model),
        node_selector=dict(spec.placement.node_selector),
        architectures=architectures,
        blocked_by=blocked_by,
        depends_on=frozenset(spec.depends_on),
        preemptible=spec.preemptible,
        require_nvlink=spec.placement.require_nvlink,
        same_leaf=spec.placement.same_leaf,
        skips=skips,
        replica_of=_replica_of(session),
    )


def _replica_of(session: Session) -> ServiceReplica | None:
    service = service_of(session)
    if not service:
        return None
    generation = session.metadata.labels.get(GENERATION_LABEL, "")
    packed = session.metadata.annotations.get(SPREAD_ANNOTATION) == "pack"
    return ServiceReplica(service, generation, "pack" if packed else "spread")


def designated_nodes(session: Session, repository: Repository) -> frozenset[str]:
    """The nodes that it names, as far as they have the disks of its volumes; any when empty."""
    named, there = frozenset(session.spec.placement.nodes), nodes_with_volumes(repository, session)
    return named if there is None else named & there or there


def request_of_placement(placement: Placement, identity: str, group: str) -> SessionRequest:
    """What a session holds, when nothing else about it can be read."""
    return SessionRequest(
        id=identity,
        group=group or placement.group,
        kernels=tuple(
            KernelRequest(
                part.kernel, part.kernel.rstrip("0123456789"), 1, held_slots(placement, part.kernel)
            )
            for part in placement.kernels
        ),
        exclusive_cpus=any(part.cpus for part in placement.kernels),
    )


def held_slots(placement: Placement, kernel: str) -> SlotMap:
    """Slots that a placed kernel holds."""
    part = next(part for part in placement.kernels if part.kernel == kernel)
    slots = {"cpu": part.cpu_milli, "mem": part.memory, **bytes_by_slot(part.hugepages)}
    for grant in part.devices:
        whole = 1 if not grant.slot.endswith(".shares") else grant.milli
        slots[grant.slot] = slots.get(grant.slot, 0) + whole
    return slots
