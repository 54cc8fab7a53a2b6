"""LimitRanges of the namespaces where bai makes pods: how much one pod may ask for, and at least must
(https://kubernetes.io/docs/concepts/policy/limit-range/). Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from providers.foreign_use import OutsideQuota
from providers.kubernetes.objects.amounts import SLOTS
from providers.kubernetes.objects.quantity import parse_quantity
from schemas.kinds.parts.kubernetes import Kubernetes


@dataclass(frozen=True, slots=True)
class NamespaceRange:
    """Bounds by slot, in its smallest unit: of a container, which is all that a pod of bai's has, and of a
    pod, whichever is tighter."""

    namespace: str
    name: str
    most: Mapping[str, int]
    least: Mapping[str, int]


def parse_limit_range(found: Mapping[str, Any]) -> NamespaceRange:
    most: dict[str, int] = {}
    least: dict[str, int] = {}
    for limit in (found.get("spec") or {}).get("limits") or ():
        if limit.get("type") in ("Container", "Pod"):
            for slot, amount in _amounts(limit.get("max")):
                most[slot] = min(amount, most.get(slot, amount))
            for slot, amount in _amounts(limit.get("min")):
                least[slot] = max(amount, least.get(slot, amount))
    metadata = found["metadata"]
    return NamespaceRange(str(metadata.get("namespace")), str(metadata["name"]), most, least)


def _amounts(given: Mapping[str, Any] | None) -> Iterable[tuple[str, int]]:
    for name, text in (given or {}).items():
        if name in SLOTS:
            yield SLOTS[name], parse_quantity(str(text), milli=name == "cpu")


def outside_ranges(ranges: Iterable[NamespaceRange], options: Kubernetes) -> tuple[OutsideQuota, ...]:
    """What each allows a kernel of bai's."""
    return tuple(
        OutsideQuota(
            f"LimitRange/{each.namespace}/{each.name}",
            options.project_of(each.namespace),
            {},
            {},
            each.most,
            each.least,
        )
        for each in sorted(ranges, key=lambda one: (one.namespace, one.name))
        if each.most or each.least
    )
