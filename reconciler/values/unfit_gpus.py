"""GPUs that get no sessions: for the sake of their health, since nobody offers them now, or since others have
them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from planner.model.types import KernelPlacement, Placement
from providers.foreign_use import OfferedDevices
from providers.health.values import NodeHealth
from schemas.hardware.model import Hardware
from schemas.values.once_per_value import once_per_value


class UnfitGpu(NamedTuple):
    """A GPU of a placement that is unfit, and whose kernel's it is."""

    part: KernelPlacement
    gpu: str
    name: str
    why: str


def unfit_gpus(placement: Placement, health: Mapping[str, NodeHealth]) -> Iterator[UnfitGpu]:
    """The GPUs of a placement that are unfit now."""
    for part in placement.kernels:
        known = health.get(part.node)
        if known is None:
            continue
        for grant in part.devices:
            gpu = known.gpu_of(grant.id)
            if gpu in known.unfit:
                yield UnfitGpu(part, gpu, known.name(gpu), known.unfit[gpu])


def unfit_gpu_names(health: Mapping[str, NodeHealth]) -> frozenset[str]:
    """`gpu 3 of n1`, of all that get no sessions."""
    return frozenset(f"{one.name(gpu)} of {node}" for node, one in health.items() for gpu in one.unfit)


@once_per_value
def known_devices(hardware: Hardware) -> frozenset[str]:
    """Ids of all that drivers can withdraw: GPUs, their MIG devices, and NICs."""
    instances = (each.id for gpu in hardware.gpus for each in gpu.mig_devices)
    return frozenset((*(gpu.id for gpu in hardware.gpus), *instances, *(nic.id for nic in hardware.nics)))


def withdrawn_gpus(placement: Placement, offered: OfferedDevices) -> Iterator[UnfitGpu]:
    """The devices of a placement that nobody offers now."""
    for part in placement.kernels:
        here = offered.devices.get(part.node, frozenset())
        for grant in part.devices:
            if grant.id not in here:
                yield UnfitGpu(part, grant.id, grant.id, offered.why_not(grant.id))


def taken_gpus(placement: Placement, taken: Mapping[tuple[str, str], str]) -> Iterator[UnfitGpu]:
    """The devices of a placement that others have now. `taken`: by node and device, who has it."""
    for part in placement.kernels:
        for grant in part.devices:
            if owner := taken.get((part.node, grant.id)):
                yield UnfitGpu(part, grant.id, grant.id, f"is {owner}'s now")
