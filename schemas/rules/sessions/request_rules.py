"""What containers ask for, and how much of it suits them and their resource group.

Beside a GPU a core is wanted: the thread that starts kernels and waits for them needs its time, or the GPU
idles.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping

from schemas.kinds.cluster import Cluster
from schemas.kinds.parts.resources import Resources
from schemas.kinds.resource_group import Fractional, ResourceGroup
from schemas.kinds.session import Session
from schemas.problems.issues import Issue, Loc
from schemas.values.quantities import format_cpu, format_memory, format_shares

_CORE = _WHOLE = 1000
_NO_HUGEPAGES = {
    "process": "native sessions are given no huge pages",
    "docker": "Docker can neither give nor limit huge pages",
}
"""Provider → why it gives none."""
_GPUS = ("cuda", "rocm")


def little_cpu_warnings(session: Session) -> Iterator[Issue]:
    """Containers that have a GPU, or a part of one, and less than one CPU."""
    for at, resources in _used_requests(session):
        if _has_gpu(resources.accelerators) and (resources.cpu or 0) < _CORE:
            message = (
                f"{_amount(resources)} beside a GPU: who waits for it is throttled meanwhile, and it idles"
            )
            yield Issue((*at, "cpu") if resources.cpu else at, message, "ask for cpu: 1 or more", "BAI-V095")


def scratch_rules(session: Session, group: ResourceGroup) -> Iterator[Issue]:
    """Requests of more scratch than the group allows."""
    most = group.spec.scratch.max
    for at, resources in written_requests(session) if most else ():
        if most and resources.scratch and resources.scratch > most:
            asked_for = format_memory(resources.scratch)
            message = f"{asked_for} of scratch is more than resource group '{group.name}' allows"
            hint = f"ask for at most {format_memory(most)}"
            yield Issue((*at, "scratch"), message, hint, "BAI-V032")


def hugepage_rules(session: Session, cluster: Cluster) -> Iterator[Issue]:
    """Requests of huge pages where nothing gives them, and nothing would hold others off them."""
    why = _NO_HUGEPAGES.get(cluster.spec.provider)
    for at, resources in written_requests(session) if why else ():
        for slot in [slot for slot, amount in resources.hugepages.items() if amount]:
            hint = "leave it out, or run it on a cluster with `provider: kubernetes`"
            yield Issue((*at, slot), f"{slot}: {why}", hint, "BAI-V050", key=True)


def least_cpu_rules(session: Session, group: ResourceGroup) -> Iterator[Issue]:
    """Containers with less CPU for each of their GPUs than `fractional.minCpu` of their group."""
    least = group.spec.fractional.min_cpu or 0
    for at, resources in _used_requests(session) if least else ():
        needed = least * _gpu_count(resources.accelerators, group.spec.fractional)
        if (resources.cpu or 0) < needed:
            message = f"{_amount(resources)} is less than resource group '{group.name}' wants beside its GPUs"
            hint = f"ask for at least cpu: {format_cpu(needed)}"
            yield Issue((*at, "cpu") if resources.cpu else at, message, hint, "BAI-V032")


def largest_part_rules(session: Session, group: ResourceGroup) -> Iterator[Issue]:
    """Containers with a larger part of a GPU than `fractional.largest` of their group."""
    rule = group.spec.fractional
    for at, resources in _used_requests(session):
        for slot, amount in resources.accelerators.items():
            if slot.endswith(".shares") and _part(amount, rule) > rule.largest < _WHOLE:
                message = f"{slot}: {format_shares(amount)} is a larger part of a GPU than"
                message += f" resource group '{group.name}' gives"
                hint = f"ask for at most {format_shares(rule.largest * rule.shares_per_device)}"
                yield Issue((*at, slot), message, hint, "BAI-V032", key=True)


def _part(amount: int, rule: Fractional) -> int:
    """Thousandths of a device, as they are given."""
    exact = -(-amount // rule.shares_per_device)
    return -(-exact // rule.quantum) * rule.quantum


def written_requests(session: Session) -> Iterator[tuple[Loc, Resources]]:
    """What is asked for for all containers, and by roles in its place, with where it stands."""
    yield ("spec", "resources"), session.spec.resources
    for role, own in session.spec.cluster.per_role.items():
        if own.resources is not None:
            yield ("spec", "cluster", "perRole", role, "resources"), own.resources


def _used_requests(session: Session) -> Iterator[tuple[Loc, Resources]]:
    """Without what is asked for for all, where each role has its own."""
    own = session.spec.cluster.per_role
    shared = any(role not in own or own[role].resources is None for role in session.spec.cluster.roles)
    return itertools.islice(written_requests(session), 0 if shared else 1, None)


def _has_gpu(accelerators: Mapping[str, int]) -> bool:
    return any(amount and slot.partition(".")[0] in _GPUS for slot, amount in accelerators.items())


def _gpu_count(accelerators: Mapping[str, int], rule: Fractional) -> int:
    """GPUs of which it has any part: whole devices, instances, and as few as hold its shares."""
    count = 0
    for slot, amount in accelerators.items():
        vendor, _, kind = slot.partition(".")
        if vendor in _GPUS:
            shares = kind == "shares"
            count += math.ceil(amount / (_CORE * rule.shares_per_device)) if shares else amount
    return count


def _amount(resources: Resources) -> str:
    return f"cpu: {format_cpu(resources.cpu or 0)}"
