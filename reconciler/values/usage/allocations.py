"""What a session holds, and what is written down of it when it holds it no longer, or other amounts. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from planner.model.types import Placement
from reconciler.values.records import HOLDING, Allocation, Recorded


def current_allocation(record: Recorded, now: float) -> Allocation | None:
    """What a session holds since its containers started; None where it holds nothing."""
    if not is_held(record) or record.started_at is None or record.placement is None:
        return None
    parts = record.placement.kernels
    return Allocation(
        session=record.resource,
        generation=record.generation,
        user=record.account.user if record.account else _owner(record),
        began=record.started_at,
        started=record.started_at,
        ended=max(record.started_at, now),
        cpu=sum(part.cpu_milli for part in parts),
        memory=sum(part.memory for part in parts),
        devices=device_amounts(record.placement),
        kernels=record.kernels,
    )


def is_held(record: Recorded) -> bool:
    """Whether its session holds its placement: one that had ended holds nothing while what is left of it is
    taken away."""
    return record.phase in HOLDING and record.finished_at is None


def device_amounts(placement: Placement) -> dict[str, int]:
    """Thousandths of devices, or of MIG instances, by slot."""
    amounts: Counter[str] = Counter()
    for part in placement.kernels:
        for grant in part.devices:
            amounts[grant.slot] += grant.milli
    return dict(sorted(amounts.items()))


def closed_allocations(old: Recorded | None, new: Recorded | None, now: float) -> tuple[Allocation, ...]:
    """What has been held until now when `new` (None: nothing) takes the place of `old`. One start that held
    several amounts one after the other gives several; the store begins each where the one before ended."""
    held = current_allocation(old, now) if old is not None else None
    if old is None or held is None:
        return ()
    same = new is not None and new.generation == old.generation
    if new is not None and same and new.phase in HOLDING:
        after = current_allocation(new, now)
        return (held,) if after is not None and _amounts(after) != _amounts(held) else ()
    ended = now
    if new is not None and same and new.finished_at is not None:
        ended = new.finished_at
    elif new is not None and new.started_at is not None:
        # A store that was restored hears late of the start that came after the one it knows.
        ended = min(now, new.started_at)
    closed = current_allocation(old, ended)
    return (closed,) if closed is not None else ()


def _amounts(held: Allocation) -> tuple[int, int, Mapping[str, int]]:
    return held.cpu, held.memory, held.devices


def _owner(record: Recorded) -> str:
    spec = record.document.get("spec")
    owner = spec.get("owner") if isinstance(spec, Mapping) else None
    return owner if isinstance(owner, str) else ""
