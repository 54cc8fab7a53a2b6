"""What must never happen, checked whenever the world changes, without the help of what plans and applies."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection

from providers.fake import FakeKernel, World
from reconciler.values.records import Allocation, Holdings
from reconciler.values.usage.totals import held_allocations


class Violation(BaseException):
    """The reconciler did what it must never do. Not an Exception: no error handling may swallow it."""


def live(world: World) -> dict[str, FakeKernel]:
    """Kernels that have not ended, by id."""
    return {key: kernel for key in sorted(world.kernels) if (kernel := world.settle(key)).ended is None}


def nothing_given_twice(world: World) -> None:
    """No core is held by two live kernels, and no device for more than the whole of it."""
    held: Counter[tuple[str, str]] = Counter()
    for kernel in live(world).values():
        labels = kernel.spec.labels
        placement = json.loads(labels.placement)
        if placement["node"] != labels.node or tuple(placement["cpus"]) != kernel.spec.cpus:
            raise Violation(f"{kernel.spec.id} does not run where its label says")
        for cpu in kernel.spec.cpus:
            held[labels.node, f"cpu {cpu}"] += 1000
        for device in placement["devices"]:
            held[labels.node, device["id"]] += device["milli"]
    twice = [unit for unit, milli in held.items() if milli > 1000]
    if twice:
        raise Violation(f"given twice: {twice}: {sorted(live(world))}")


def nothing_doubled(world: World, ghosts: Collection[str] = ()) -> None:
    """No container of a session lives twice, but for `ghosts`: kernels that were out of reach. No id was made
    twice."""
    if world.twins:
        raise Violation(f"made twice: {world.twins}")
    names = Counter(
        (kernel.spec.labels.resource, kernel.spec.labels.kernel)
        for key, kernel in live(world).items()
        if key not in ghosts
    )
    doubled = [name for name, count in names.items() if count > 1]
    if doubled:
        raise Violation(f"lives twice: {doubled}: {sorted(live(world))}")


def nothing_counted_twice(holdings: Holdings, now: float) -> None:
    """No session has held anything at the same time twice."""
    last: dict[str, Allocation] = {}
    for each in sorted(
        held_allocations(holdings, now), key=lambda one: (one.session, one.started, one.ended)
    ):
        before = last.get(each.session)
        if before is not None and each.started < before.ended:
            raise Violation(f"counted twice: {before} and {each}")
        if not each.began <= each.started <= each.ended:
            raise Violation(f"held at no time: {each}")
        last[each.session] = each
