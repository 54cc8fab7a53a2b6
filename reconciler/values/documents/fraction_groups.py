"""Resource groups that demand enforcement of GPU fractions, and their nodes. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from schemas.values.once_per_value import once_per_value

if TYPE_CHECKING:
    from reconciler.values.state import Desired
    from schemas.kinds.session import Session


@once_per_value
def groups_to_enforce(desired: Desired) -> frozenset[str]:
    """Groups that demand enforcement of the GPU fractions that some session asks for."""
    asked = {each.spec.resource_group or "" for each in desired.session_specs if any(share_amounts(each))}
    groups = (desired.groups[name] for name in asked if name in desired.groups)
    return frozenset(group.name for group in groups if group.spec.fractional.enforcement != "none")


def group_nodes(desired: Desired, group: str) -> tuple[str, ...]:
    """The nodes of a group, by name."""
    return _nodes_by_group(desired).get(group, ())


@once_per_value
def _nodes_by_group(desired: Desired) -> Mapping[str | None, tuple[str, ...]]:
    found: dict[str | None, list[str]] = {}
    for node in desired.nodes:
        found.setdefault(desired.repository.group_of_node(node), []).append(node.name)
    return {group: tuple(names) for group, names in found.items()}


@once_per_value
def share_amounts(session: Session) -> tuple[int, ...]:
    """What each container asks for of devices that are shared."""
    slots = (item for container in session.spec.containers for item in container.resources.slots.items())
    return tuple(amount for slot, amount in slots if ".shares" in slot and amount)


@once_per_value
def demanded_means(desired: Desired) -> dict[str, frozenset[str]]:
    """Node → what enforces the parts of GPUs that its group gives, whether or not somebody asks for one; MIG
    where somebody asks for an instance."""
    instances = {
        each.spec.resource_group or ""
        for each in desired.session_specs
        for container in each.spec.containers
        if any(slot.startswith("cuda.mig.") for slot in container.resources.slots)
    }
    found: dict[str, frozenset[str]] = {}
    for name, group in desired.groups.items():
        means = {group.spec.fractional.enforcement, *(("mig",) if name in instances else ())} - {"none"}
        found |= dict.fromkeys(group_nodes(desired, name), frozenset(means))
    return found
