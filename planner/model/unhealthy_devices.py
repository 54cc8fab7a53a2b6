"""Devices that are out of placement: which, and why."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from planner.model.demand import Demand
from planner.model.types import NodeInfo, Reason
from schemas.hardware.model import Gpu, Hardware
from schemas.values.once_per_value import once_per_value

_MOST_NAMED = 3


def unhealthy_devices(node: NodeInfo) -> frozenset[str]:
    """Ids of the node's devices that get no sessions, the instances of such GPUs among them."""
    if not node.unhealthy:
        return _reported(node.hardware)
    return node.unhealthy | _reported(node.hardware) | _devices_of(node.hardware, node.unhealthy)


@once_per_value
def _reported(hardware: Hardware) -> frozenset[str]:
    """Those that the machine itself calls unhealthy."""
    return _devices_of(hardware, {gpu.id for gpu in hardware.gpus if not gpu.healthy})


def _devices_of(hardware: Hardware, names: Collection[str]) -> frozenset[str]:
    """GPUs of these ids, with their instances."""
    gpus = [gpu for gpu in hardware.gpus if gpu.id in names]
    instances = (instance.id for gpu in gpus for instance in gpu.mig_devices)
    return frozenset((*(gpu.id for gpu in gpus), *instances))


def unhealthy_reason(node: NodeInfo, gpu: Gpu) -> str:
    """In words; empty for a GPU that is in placement, or of which only that is known."""
    return node.ailing.get(gpu.id) or "; ".join(gpu.health)


def unhealthy_sentences(node: NodeInfo) -> Iterator[str]:
    """`GPU 3 of n1 is out of placement: ...`; one for all where it is the same for all."""
    gone = unhealthy_devices(node)
    if not gone:
        return
    gpus = [gpu for gpu in node.hardware.gpus if gpu.id in gone]
    reasons = {unhealthy_reason(node, gpu) for gpu in gpus}
    if len(gpus) > 1 and len(gpus) == len(node.hardware.gpus) and len(reasons) == 1:
        yield _sentence(f"all {len(gpus)} GPUs of {node.name} are out of placement", reasons.pop())
        return
    for gpu in gpus:
        yield _sentence(f"GPU {gpu.index} of {node.name} is out of placement", unhealthy_reason(node, gpu))
    for gpu in node.hardware.gpus:
        lost = [each.id for each in gpu.mig_devices if each.id in gone] if gpu.id not in gone else []
        if lost:
            what = f"MIG devices of GPU {gpu.index} of {node.name} are out of placement ({', '.join(lost)})"
            yield _sentence(what, node.ailing.get(lost[0], ""))


def _sentence(what: str, why: str) -> str:
    return f"{what}: {why}" if why else what


def unhealthy_wait_reason(nodes: Iterable[NodeInfo], demand: Demand) -> Reason | None:
    """What somebody who wants devices has to know of those that are not given; code `unhealthy`."""
    if not demand.wants_devices:
        return None
    found = [sentence for node in nodes for sentence in unhealthy_sentences(node)]
    if not found:
        return None
    more = f"; and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
    return Reason("unhealthy", "; ".join(found[:_MOST_NAMED]) + more)
