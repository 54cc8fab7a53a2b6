"""What nodes have of devices that are counted: as hardware, which names them by numbers. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from providers.kubernetes.objects.counted import DRIVERS, CountedDevices
from providers.kubernetes.objects.device import Device
from providers.kubernetes.observe.nodes import ClusterNode
from schemas.hardware.anonymous import AnonymousDevice
from schemas.hardware.model import Gpu, MigDevice

_INSTANCES = "nvidia.com/mig"
"""Of the one GPU that stands for all that are divided on a node: no pod may ask for it."""


def devices_given(node: ClusterNode, published: Sequence[Device]) -> tuple[CountedDevices, ...]:
    """Those that may be given to pods. Where a DRA driver publishes a vendor's devices (`published`: of this
    node), that one gives them away, and nobody counts them a second time."""
    if not node.counted:
        return ()
    drivers = {device.driver for device in published}
    return tuple(each for each in node.counted if not each.why_not and DRIVERS[each.vendor] not in drivers)


@lru_cache(maxsize=8192)
def _ids(node: str, resource: str, count: int) -> tuple[str, ...]:
    return tuple(AnonymousDevice(node, resource, number).id for number in range(count))


def counted_ids(node: str, given: CountedDevices) -> tuple[str, ...]:
    return _ids(node, given.resource, given.count)


def parent_id(node: str) -> str:
    return AnonymousDevice(node, _INSTANCES, 0).id


def counted_gpus(node: str, given: Sequence[CountedDevices], first: int) -> Iterator[Gpu]:
    """`first`: the index of the first one. On which GPUs MIG devices lie, nobody tells: they are of one that
    stands for all of them."""
    index = first
    for each in given:
        for name in counted_ids(node, each) if not each.profile else ():
            yield Gpu(
                id=name, index=index, slot=each.slot_prefix, vendor=each.vendor, model=each.model,
                memory=each.memory,
            )  # fmt: skip
            index += 1
    divided = [each for each in given if each.profile]
    if divided:
        models = {each.model for each in divided}
        yield Gpu(
            id=parent_id(node),
            index=index,
            slot=divided[0].slot_prefix,
            vendor=divided[0].vendor,
            model=models.pop() if len(models) == 1 else "",
            mig="enabled",
            mig_devices=tuple(
                MigDevice(id=name, profile=each.profile)
                for each in divided
                for name in counted_ids(node, each)
            ),
        )


def counted_unknown(node: ClusterNode, given: Sequence[CountedDevices]) -> Iterator[str]:
    """What is not known of them, and of those that nobody gets, why."""
    if given:
        names = ", ".join(each.resource for each in given)
        yield (
            f"which GPU is which ({names}): a device plugin counts them, and the kubelet chooses whose they "
            "are; their NUMA nodes, PCI addresses and links"
        )
    if any(not each.model for each in given):
        yield (
            "models and memory of GPUs, and whether each that is counted is a whole one: no labels of GPU "
            "Feature Discovery"
        )
    yield from (each.why_not for each in node.counted if each.why_not)
