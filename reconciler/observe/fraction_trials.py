"""Which parts of a node's GPUs can be taken to see whether they hold, without disturbing who runs. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from planner.environment.variables import fraction_variables
from planner.model.types import DeviceGrant, Fractional, KernelPlacement
from providers.gpu.enforcement import ExpectedInstance, TrialPart
from reconciler.values.adoption import placement_of
from reconciler.values.session_phase import ENDED, LIVE
from reconciler.values.state import Actual
from schemas.hardware.mig import instance_of_profile
from schemas.hardware.model import Gpu, Hardware

LEAST_MILLI, MOST_MILLI = 100, 500
LEAST_MEMORY = 2 << 30
"""Bytes: a context takes half a GiB of its part, and more with many multiprocessors."""
_WHOLE = 1000


def trial_parts(
    means: str, hardware: Hardware | None, held: Mapping[str, int]
) -> tuple[tuple[TrialPart, ...], ...]:
    """Parts to be tried one after the other, each with those that would do instead; none where all GPUs are
    in use (`held`, see `held_milli`). A GPU that a session holds whole is never among them; one with sharers
    only for `mps`, whose clients are kept apart, and where there is room."""
    if hardware is None:
        return ()
    if means == "mig":
        return _instances(hardware, held)
    parts = [
        _part(gpu, means, hardware, shared=bool(held.get(gpu.id)))
        for gpu in hardware.gpus
        if _divisible(gpu) and _has_room(means, gpu, held)
    ]
    return (tuple(sorted(parts, key=lambda part: part.shared)),) if parts else ()


def _divisible(gpu: Gpu) -> bool:
    """Named by its UUID, so that the very one is tried, and with so much memory that a part can be told."""
    known = gpu.slot == "cuda" and gpu.id.startswith("GPU-") and gpu.mig != "enabled"
    return known and gpu.healthy and gpu.memory >= LEAST_MEMORY


def _has_room(means: str, gpu: Gpu, held: Mapping[str, int]) -> bool:
    taken = held.get(gpu.id, 0)
    return not taken or (means == "mps" and taken + _milli(gpu) <= _WHOLE)


def _milli(gpu: Gpu) -> int:
    """The smallest part that is large enough to be told from the others."""
    needed = -(-LEAST_MEMORY * _WHOLE // gpu.memory)
    return min(MOST_MILLI, max(LEAST_MILLI, -(-needed // 10) * 10))


def _part(gpu: Gpu, means: str, hardware: Hardware, *, shared: bool) -> TrialPart:
    milli = _milli(gpu)
    grant = DeviceGrant(gpu.id, f"{gpu.slot}.shares", milli)
    placement = KernelPlacement("main1", "", (), 0, (), 0, (grant,))
    rule = Fractional(enforcement="hami" if means == "hami" else "mps")
    memory = (gpu.memory * milli // _WHOLE) >> 20 << 20
    return TrialPart(gpu.id, memory, milli, fraction_variables(placement, hardware, rule), shared)


def _instances(hardware: Hardware, held: Mapping[str, int]) -> tuple[tuple[TrialPart, ...], ...]:
    """One free instance of each profile of each GPU."""
    found: dict[tuple[str, str], TrialPart] = {}
    for gpu in hardware.gpus:
        for device in gpu.mig_devices:
            expected = instance_of_profile(gpu, device.profile)
            if expected and device.id.startswith("MIG-") and device.id not in held:
                instance = ExpectedInstance(device.profile, *expected)
                part = TrialPart(device.id, expected[0][1], instance=instance)
                found.setdefault((gpu.id, device.profile), part)
    return tuple((part,) for part in found.values())


def held_milli(actual: Actual) -> dict[str, int]:
    """Device → thousandths that somebody has, or is about to have. Whole devices have 1000."""
    grants: dict[tuple[str, str], int] = {}
    for holder, part in _held_parts(actual):
        for grant in part.devices:
            grants[grant.id, holder] = max(grants.get((grant.id, holder), 0), grant.milli)
    totals: dict[str, int] = {}
    for (device, _), milli in grants.items():
        totals[device] = totals.get(device, 0) + milli
    return totals


def _held_parts(actual: Actual) -> Iterator[tuple[str, KernelPlacement]]:
    for existing in actual.existing.values():
        placement = existing.recorded.placement
        live = [kernel for kernel in (*existing.kernels, *existing.strays) if kernel.state in LIVE]
        if placement is not None and (existing.phase not in ENDED or live):
            yield from ((f"{existing.id} {part.kernel}", part) for part in placement.kernels)
        for kernel in live:
            labelled = placement_of(kernel.labels)
            if labelled is not None:
                yield f"{existing.id} {kernel.labels.kernel}", labelled
    for hold in actual.holds:
        yield hold.kernel, hold.placement
