"""For which waits an autoscaler is asked for nodes, and what is said of that. Pure.

Nodes cost money, so that the rule is narrow: a session waits for room and for nothing else, its quotas would
let it run beside all who run and all for whom nodes are asked already, and its group says so, with a limit.
What an autoscaler can bring, it knows itself, and says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from planner.admission.quota import QuotaLedger
from planner.model import slots
from planner.model.types import Reason, SessionRequest, Snapshot, Wait
from planner.selection.gang import Shape, ShapeCache
from providers.autoscaling.values import MOST_NODES, AskedNodes, NodeAsks, NodeNeed, NodeRequest
from reconciler.plan.context import PlanContext
from reconciler.plan.place.cluster_views import snapshot_after
from reconciler.plan.place.placement_result import PlacementResult
from reconciler.values.state import Desired
from schemas.kinds.cluster import Cluster
from schemas.kinds.parts.kubernetes import Kubernetes, NodeProvisioning
from schemas.values.resource_ref import identity_of, ref_of

CODE = "new-node"
"""Of the reason that says what is asked for, or why nothing is."""
_ENDED_BY_NODES = frozenset({"no-capacity", "no-node", "impossible"})
_BESIDE = frozenset({"unhealthy"})
"""Reasons that say more of a lack, and are none of their own."""
_WHOLE_GPUS = frozenset({"cuda.device", "rocm.device"})
_NAMED_NODES = 3
_STATES: Mapping[str, str] = {
    "incomplete": "is being made",
    "new": "no autoscaler has looked at it yet",
    "accepted": "accepted",
    "not-found": "no capacity found, tried again by the autoscaler",
    "provisioned": "provisioned: nodes are there, or on their way",
    "expired": "provisioned, and its booking is over",
    "revoked": "its capacity was revoked",
    "failed": "failed",
}
_OVER = frozenset({"expired", "revoked", "failed"})


@dataclass(frozen=True, slots=True)
class _Candidate:
    wait: Wait
    request: SessionRequest
    asked: NodeRequest


def provisioning_options(desired: Desired) -> Kubernetes | None:
    """None where no group of the cluster asks for nodes."""
    cluster = desired.repository.resources.get(identity_of("Cluster", desired.cluster))
    if not isinstance(cluster, Cluster) or cluster.spec.provider != "kubernetes":
        return None
    options = cluster.spec.kubernetes
    return options if options.provisioning_requests else None


def ask_for_nodes(context: PlanContext, result: PlacementResult) -> PlacementResult:
    """The same, with the nodes that are asked for, and a reason beside those of each wait that is about
    them."""
    options, asks = provisioning_options(context.desired), context.actual.node_asks
    if options is None or asks is None or not result.waits or not context.actual.complete:
        return result
    after = snapshot_after(context, result)
    candidates, said = _candidates(context, options, result.waits.values(), after)
    if asks.why_not:
        said |= {each.wait.session: f"no node is asked for: {asks.why_not}" for each in candidates}
        candidates = []
    chosen, more = _choose(candidates, options, asks, after)
    said |= more
    for each in chosen:
        unnamed = asks.unnamed.get(each.wait.group, ())
        said[each.wait.session] = request_text(each.asked, asks.requests.get(each.asked.key), unnamed)
    waits = {
        name: replace(wait, reasons=(*wait.reasons, Reason(CODE, said[name]))) if name in said else wait
        for name, wait in result.waits.items()
    }
    return replace(result, waits=waits, node_requests=tuple(each.asked for each in chosen))


def _candidates(
    context: PlanContext, options: Kubernetes, waits: Iterable[Wait], after: Snapshot
) -> tuple[list[_Candidate], dict[str, str]]:
    """In the order of the queues; and, of those that no request can be made for, why."""
    requests = {one.id: one for one in after.pending}
    shapes = {group.name: ShapeCache(group) for group in after.groups}
    found: list[_Candidate] = []
    said: dict[str, str] = {}
    for wait in sorted(waits, key=lambda each: (each.group, each.position, each.session)):
        pool, request = options.provisioning_requests.get(wait.group), requests.get(wait.session)
        if pool is None or request is None or wait.group not in shapes or not _lacks_only_room(wait):
            continue
        shape = shapes[wait.group].of(request)
        if why := _obstacle(request, shape, pool):
            said[wait.session] = f"no node is asked for: {why}"
        else:
            asked = _node_request(context.desired, options, pool, wait.session, shape)
            found.append(_Candidate(wait, request, asked))
    return found, said


def _lacks_only_room(wait: Wait) -> bool:
    codes = {reason.code for reason in wait.reasons}
    return bool(codes & _ENDED_BY_NODES) and codes <= _ENDED_BY_NODES | _BESIDE


def _obstacle(request: SessionRequest, shape: Shape, pool: NodeProvisioning) -> str:
    """Why a new node might not end its wait, or cannot be asked for."""
    if request.designated or request.node_selector or request.gpu_models:
        return "it names nodes, labels or GPU models, which a new node may not have"
    if request.same_leaf or request.require_nvlink:
        return "it asks for one leaf switch, or NVLinks, which nobody knows of a new node"
    if any(need.sum.shares for need in shape.needs):
        return "it asks for parts of GPUs"
    others = sorted({slot for need in shape.needs for slot, _ in need.sum.whole} - _WHOLE_GPUS)
    if others:
        return f"it asks for {', '.join(others)}, and only whole GPUs are asked for"
    count = len(shape.needs)
    if count > min(pool.max_nodes, MOST_NODES):
        return f"it needs {count} nodes, and maxNodes of its group is {pool.max_nodes}"
    return ""


def _node_request(
    desired: Desired, options: Kubernetes, pool: NodeProvisioning, session: str, shape: Shape
) -> NodeRequest:
    needs = (
        NodeNeed(1000 * sum_.cores + sum_.milli, sum_.memory, sum_.whole, sum_.pages)
        for sum_ in (need.sum for need in shape.needs)
    )
    return NodeRequest(
        desired.repo, desired.cluster, session, options.namespace_of(ref_of(session).project),
        tuple(needs), tuple(sorted(pool.node_selector.items())), tuple(sorted(pool.taints)),
    )  # fmt: skip


def _choose(
    candidates: list[_Candidate], options: Kubernetes, asks: NodeAsks, after: Snapshot
) -> tuple[list[_Candidate], dict[str, str]]:
    """Whose requests are made or kept, and why the others' are not. What is asked for stays so before
    anybody else's is, whoever comes first by now: nodes that are on their way are paid for."""
    ledger = QuotaLedger(after.quotas, {group.name: group.fractional for group in after.groups})
    for one in after.running:
        ledger.take(one.request)
    used: dict[str, int] = {}
    chosen: list[_Candidate] = []
    said: dict[str, str] = {}
    for each in sorted(candidates, key=lambda each: each.asked.key not in asks.requests):
        group = each.wait.group
        most, count = options.provisioning_requests[group].max_nodes, len(each.asked.nodes)
        before = used.get(group, 0)
        if refused := ledger.violations(each.request):
            why = f"those asked for already would use up its quota: {refused[0].message}"
            said[each.wait.session] = f"no node is asked for: {why}"
        elif before + count > most:
            why = f"{slots.plural(before, 'node')} of group {group} are asked for already (maxNodes {most})"
            said[each.wait.session] = f"no node is asked for: {why}"
        else:
            ledger.take(each.request)
            used[group] = before + count
            chosen.append(each)
    return chosen, said


def request_text(request: NodeRequest, asked: AskedNodes | None, unnamed: tuple[str, ...]) -> str:
    """What has become of a request, and what a person can do."""
    name = f"ProvisioningRequest {request.namespace}/{request.name}"
    if asked is None:
        return f"{slots.plural(len(request.nodes), 'node')} to be asked for by the loop ({name})"
    text = f"{name}: {_STATES[asked.state]}"
    if asked.why:
        text += f": {asked.why}"
    if asked.state in _OVER:
        delete = f"kubectl delete provisioningrequest -n {request.namespace} {request.name}"
        text += f"; `{delete}` has it asked for anew"
    if unnamed:
        more = f" and {len(unnamed) - _NAMED_NODES} more" if len(unnamed) > _NAMED_NODES else ""
        shown = ", ".join(unnamed[:_NAMED_NODES])
        text += f"; no document names {shown}{more} of its pool: `bai import kubernetes` writes them"
    return text
