"""What one kernel needs of one node, normalised: whole cores or shared milli-cores, bytes, whole devices,
parts of devices.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from planner.model import slots
from planner.model.huge_pages import whole_pages
from planner.model.types import Fractional, GroupInfo, KernelRequest, NumaPolicy, SessionRequest


class DeviceShare(NamedTuple):
    """Part of devices. `milli`: milli-devices after rounding up; more than 1000 takes several devices."""

    slot: str
    milli: int
    quantum: int
    spread: Literal["fill", "even"]


class Demand(NamedTuple):
    """One node's worth of need; hashable, the key of every table. `cores` are exclusive and whole, `milli` is
    shared CPU.
    """

    cores: int
    milli: int
    memory: int
    whole: tuple[tuple[str, int], ...]
    shares: tuple[DeviceShare, ...]
    numa: NumaPolicy
    fabric: bool
    """The kernel talks to kernels on other nodes: NICs near its devices matter."""
    storage: bool = False
    """GPUDirect Storage: cores and memory of every NUMA domain that holds one of its devices are needed."""

    joined: bool = False
    """Its devices of a slot are joined by direct links."""
    rails: tuple[int, ...] = ()
    """Rails of the kernels beside it, preferred where NICs are as near."""
    pages: tuple[tuple[str, int], ...] = ()
    """Slot and bytes of huge pages, in whole pages."""

    @property
    def wants_devices(self) -> bool:
        return bool(self.whole or self.shares)


class Rounding(NamedTuple):
    """A request that could not be given exactly and is given more. Texts for a warning."""

    asked: str
    given: str
    why: str


def device_milli(units: int, rule: Fractional) -> int:
    """Milli-devices for `units` milli of the user's unit, rounded up to the group's quantum: never less than
    asked.
    """
    exact = -(-units // max(1, rule.shares_per_device))
    quantum = max(1, rule.quantum)
    return -(-exact // quantum) * quantum


def granted_shares(units: int, rule: Fractional) -> int:
    """Milli of the user's unit that are given where so many are asked for."""
    return device_milli(units, rule) * max(1, rule.shares_per_device)


def demand_of(kernel: KernelRequest, session: SessionRequest, group: GroupInfo) -> Demand:
    """A kernel's demand under its session's and group's rules."""
    cpu = kernel.slots.get(slots.CPU, 0)
    exclusive = session.exclusive_cpus
    whole: list[tuple[str, int]] = []
    shares: list[DeviceShare] = []
    for slot, amount in sorted(kernel.slots.items()):
        if amount <= 0 or not slots.is_device(slot):
            continue
        if slot.endswith(slots.SHARES):
            rule = group.fractional
            shares.append(DeviceShare(slot, device_milli(amount, rule), max(1, rule.quantum), rule.spread))
        else:
            whole.append((slot, amount))
    return Demand(
        cores=-(-cpu // 1000) if exclusive else 0,
        milli=0 if exclusive else max(0, cpu),
        memory=max(0, kernel.slots.get(slots.MEMORY, 0)),
        pages=tuple(
            (slot, amount) for slot in slots.PAGES if (amount := whole_pages(kernel.slots.get(slot, 0), slot))
        ),
        whole=tuple(whole),
        shares=tuple(shares),
        numa=session.numa or group.numa,
        fabric=session.multi_node and len(session.kernels) > 1,
        storage=group.gpudirect_storage and bool(whole or shares),
        joined=session.require_nvlink and bool(whole or shares),
    )


def roundings(kernel: KernelRequest, session: SessionRequest, group: GroupInfo) -> Iterable[Rounding]:
    """What `demand_of` had to round up."""
    cpu = kernel.slots.get(slots.CPU, 0)
    if session.exclusive_cpus and cpu % 1000:
        yield Rounding(slots.amount_text(slots.CPU, cpu), str(-(-cpu // 1000)), "exclusive cores are whole")
    for slot, amount in sorted(kernel.slots.items()):
        if not slot.endswith(slots.SHARES) or amount <= 0:
            continue
        per_device = max(1, group.fractional.shares_per_device)
        given = granted_shares(amount, group.fractional)
        if given != amount:
            why = (
                f"one quantum of group {group.name} is {slots.decimal(group.fractional.quantum * per_device)}"
            )
            yield Rounding(slots.amount_text(slot, amount), slots.decimal(given), why)


def combined_demand(demands: tuple[Demand, ...]) -> Demand:
    """The sum of several kernels' demands on one node: necessary, and but for pieces of devices
    sufficient.
    """
    if len(demands) == 1:
        return demands[0]
    whole = slots.total(dict(demand.whole) for demand in demands)
    first = demands[0]
    pieces = [share for demand in demands for share in demand.shares]
    return Demand(
        cores=sum(demand.cores for demand in demands),
        milli=sum(demand.milli for demand in demands),
        memory=sum(demand.memory for demand in demands),
        pages=tuple(sorted(slots.total(dict(demand.pages) for demand in demands).items())),
        whole=tuple(sorted(whole.items())),
        shares=tuple(sorted(pieces)),
        numa=first.numa,
        fabric=first.fabric,
        storage=any(demand.storage for demand in demands),
        joined=any(demand.joined for demand in demands),
    )
