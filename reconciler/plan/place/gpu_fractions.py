"""Parts of GPUs: who may have them where, so that what a group demands is really enforced. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from planner.model.demand import device_milli
from planner.model.types import KernelPlacement
from providers.base import Capabilities
from providers.gpu.gpu_share import GpuShare
from reconciler.plan.planner_values import designated_nodes, fractional
from reconciler.values.documents.fraction_groups import group_nodes, share_amounts
from reconciler.values.state import Desired
from schemas.hardware.model import Hardware
from schemas.kinds.resource_group import ResourceGroup
from schemas.kinds.session import Session
from schemas.values.once_per_value import last_per_value

_WHOLE = 1000
_MOST = 3


def fraction_limits(
    part: KernelPlacement, group: ResourceGroup | None, hardware: Hardware
) -> GpuShare | None:
    """The limits on a kernel's parts of GPUs; None where it has none, or nobody is to enforce them."""
    means = group.spec.fractional.enforcement if group else "none"
    shares = (grant for grant in part.devices if grant.slot.endswith(".shares"))
    milli = {grant.id: grant.milli for grant in shares if grant.milli < _WHOLE}
    if means == "none" or not milli:
        return None
    sizes = {gpu.id: gpu.memory for gpu in hardware.gpus if gpu.memory}
    memory = {gpu: sizes[gpu] * given // _WHOLE for gpu, given in milli.items() if gpu in sizes}
    return GpuShare(means, milli, memory, group.spec.fractional.largest if group else _WHOLE)


def fraction_obstacle(session: Session, desired: Desired, capabilities: Capabilities | None) -> str:
    """Why a session's parts of GPUs cannot be given as its group demands; empty when they can."""
    group = desired.groups.get(session.spec.resource_group or "")
    amounts = share_amounts(session)
    if not amounts or group is None:
        return ""
    if group.spec.fractional.enforcement == "none":
        return _undivided_obstacle(session, desired, group, capabilities)
    means = group.spec.fractional.enforcement
    demands = f"group {group.name} demands {means} for parts of a GPU"
    if means == "mps" and any(_spans_several_gpus(amount, group) for amount in amounts):
        return f"{demands}, and MPS gives a container a part of one GPU only: ask for one at most, or whole"
    if means == "mig":
        return f"{demands}: these are asked for by profile, such as cuda.mig.1g.10gb, not as shares"
    if capabilities is None:
        return ""
    able = _nodes_enforcing(group, group_nodes(desired, group.name), capabilities)
    only = designated_nodes(session, desired.repository)
    if able & only if only else able:
        return ""
    reasons = [
        each for name, each in _node_obstacles(desired, group, capabilities) if not only or name in only
    ]
    if not reasons:
        return f"{demands}, which provider {capabilities.name} cannot enforce"
    more = f" and {len(reasons) - _MOST} more" if len(reasons) > _MOST else ""
    where = "none of its nodes" if only else "no node"
    return f"{demands}, which {where} can enforce: {'; '.join(reasons[:_MOST])}{more}"


def enforcing_nodes(
    session: Session, desired: Desired, capabilities: Capabilities | None
) -> frozenset[str] | None:
    """The nodes that can give parts of GPUs as a session's group demands it; None where that does not
    matter."""
    group = desired.groups.get(session.spec.resource_group or "")
    if group is None or capabilities is None or not any(share_amounts(session)):
        return None
    nodes = group_nodes(desired, group.name)
    if group.spec.fractional.enforcement == "none":
        whole = capabilities.undivided.keys() & nodes
        return frozenset(nodes) - whole if whole else None
    if not capabilities.node_fractions:
        return None
    return _nodes_enforcing(group, nodes, capabilities)


def _undivided_obstacle(
    session: Session, desired: Desired, group: ResourceGroup, capabilities: Capabilities | None
) -> str:
    """Why no node can give it parts of GPUs, where nobody enforces them; empty when one can."""
    nodes = group_nodes(desired, group.name)
    only = designated_nodes(session, desired.repository)
    asked = [name for name in nodes if not only or name in only]
    known = capabilities.undivided if capabilities is not None else {}
    reasons = list(dict.fromkeys(f"{name}: {known[name]}" for name in asked if name in known))
    if not reasons or len(reasons) < len(asked):
        return ""
    more = f" and {len(reasons) - _MOST} more" if len(reasons) > _MOST else ""
    return f"no node can give parts of a GPU: {'; '.join(reasons[:_MOST])}{more}"


def _spans_several_gpus(amount: int, group: ResourceGroup) -> bool:
    milli = device_milli(amount, fractional(group))
    return milli > _WHOLE and milli % _WHOLE != 0


@last_per_value
def _nodes_enforcing(
    group: ResourceGroup, nodes: tuple[str, ...], capabilities: Capabilities
) -> frozenset[str]:
    means, every = group.spec.fractional.enforcement, capabilities.fractions
    return frozenset(name for name in nodes if means in capabilities.node_fractions.get(name, every))


def _node_obstacles(
    desired: Desired, group: ResourceGroup, capabilities: Capabilities
) -> Iterator[tuple[str, str]]:
    known: Mapping[str, Mapping[str, str]] = capabilities.no_fractions
    for name in group_nodes(desired, group.name):
        why = known.get(name, {}).get(group.spec.fractional.enforcement)
        if why:
            yield name, f"{name}: {why}"
