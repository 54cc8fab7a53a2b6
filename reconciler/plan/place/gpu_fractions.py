"""Parts of GPUs: who may have them where, so that what a group demands is really enforced. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from planner.model.demand import device_milli
from planner.model.types import KernelPlacement
from providers.base import Capabilities, Share
from reconciler.plan.requests import designated, fractional
from reconciler.values.state import Desired
from schemas.hardware.model import Hardware
from schemas.kinds.resource_group import ResourceGroup
from schemas.kinds.session import Session

_WHOLE = 1000
_MOST = 3


def share(part: KernelPlacement, group: ResourceGroup | None, hardware: Hardware) -> Share | None:
    """The limits on a kernel's parts of GPUs; None where it has none, or nobody is to enforce them."""
    means = group.spec.fractional.enforcement if group else "none"
    shares = (grant for grant in part.devices if grant.slot.endswith(".shares"))
    milli = {grant.id: grant.milli for grant in shares if grant.milli < _WHOLE}
    if means == "none" or not milli:
        return None
    sizes = {gpu.id: gpu.memory for gpu in hardware.gpus if gpu.memory}
    memory = {gpu: sizes[gpu] * given // _WHOLE for gpu, given in milli.items() if gpu in sizes}
    return Share(means, milli, memory)


def refused(session: Session, desired: Desired, capabilities: Capabilities | None) -> str:
    """Why a session's parts of GPUs cannot be given as its group demands; empty when they can."""
    group = desired.groups.get(session.spec.resource_group or "")
    amounts = tuple(_amounts(session))
    if not amounts or group is None or group.spec.fractional.enforcement == "none":
        return ""
    means = group.spec.fractional.enforcement
    demands = f"group {group.name} demands {means} for parts of a GPU"
    if means == "mps" and any(_several(amount, group) for amount in amounts):
        return f"{demands}, and MPS gives a container a part of one GPU only: ask for one at most, or whole"
    if means == "mig":
        return f"{demands}: these are asked for by profile, such as cuda.mig.1g.10gb, not as shares"
    if capabilities is None:
        return ""
    able, only = _able(desired, group, capabilities), designated(session, desired.repository)
    if able & only if only else able:
        return ""
    reasons = [each for name, each in _reasons(desired, group, capabilities) if not only or name in only]
    if not reasons:
        return f"{demands}, which provider {capabilities.name} cannot enforce"
    more = f" and {len(reasons) - _MOST} more" if len(reasons) > _MOST else ""
    where = "none of its nodes" if only else "no node"
    return f"{demands}, which {where} can enforce: {'; '.join(reasons[:_MOST])}{more}"


def nodes(session: Session, desired: Desired, capabilities: Capabilities | None) -> frozenset[str] | None:
    """The nodes that can enforce what a session's group demands; None where that does not matter."""
    group = desired.groups.get(session.spec.resource_group or "")
    if group is None or capabilities is None or not any(_amounts(session)):
        return None
    if group.spec.fractional.enforcement == "none" or not capabilities.node_fractions:
        return None
    return _able(desired, group, capabilities)


def demanded(desired: Desired) -> frozenset[str]:
    """Groups that demand enforcement of parts that some session asks for."""
    asked = {each.spec.resource_group or "" for each in desired.sessions().values() if any(_amounts(each))}
    groups = (desired.groups[name] for name in asked if name in desired.groups)
    return frozenset(group.name for group in groups if group.spec.fractional.enforcement != "none")


def _amounts(session: Session) -> Iterator[int]:
    """What each container asks for of devices that are shared."""
    for container in session.spec.containers():
        slots = container.resources.slots
        yield from (amount for slot, amount in slots.items() if ".shares" in slot and amount)


def _several(amount: int, group: ResourceGroup) -> bool:
    milli = device_milli(amount, fractional(group))
    return milli > _WHOLE and milli % _WHOLE != 0


def _able(desired: Desired, group: ResourceGroup, capabilities: Capabilities) -> frozenset[str]:
    means, every = group.spec.fractional.enforcement, capabilities.fractions
    return frozenset(
        name for name in members(desired, group.name) if means in capabilities.node_fractions.get(name, every)
    )


def _reasons(desired: Desired, group: ResourceGroup, capabilities: Capabilities) -> Iterator[tuple[str, str]]:
    known: Mapping[str, Mapping[str, str]] = capabilities.no_fractions
    for name in members(desired, group.name):
        why = known.get(name, {}).get(group.spec.fractional.enforcement)
        if why:
            yield name, f"{name}: {why}"


def members(desired: Desired, group: str) -> tuple[str, ...]:
    """The nodes of a group, by name."""
    return tuple(node.name for node in desired.nodes if desired.repository.group_of_node(node) == group)
