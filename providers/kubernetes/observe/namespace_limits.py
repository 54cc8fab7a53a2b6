"""What namespaces hold bai's pods to: their ResourceQuotas and LimitRanges, as views that stay up to date."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from providers.foreign_use import OutsideQuota
from providers.kubernetes.api.client import ApiClient, Object
from providers.kubernetes.api.errors import FORBIDDEN, NOT_FOUND, ApiRefusal
from providers.kubernetes.api.reflector import Key, Reflector, View
from providers.kubernetes.observe.devices import DeviceIndex
from providers.kubernetes.observe.ledger import AskedClaim, HeldClaim
from providers.kubernetes.observe.limit_ranges import NamespaceRange, outside_ranges, parse_limit_range
from providers.kubernetes.observe.pods import OwnPod
from providers.kubernetes.observe.quotas import NamespaceQuota, outside_quotas, parse_quota, unplanned_parts
from schemas.kinds.parts.kubernetes import Kubernetes

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SeenLimits:
    """As they were at one moment; None: they may not be seen."""

    quotas: View[NamespaceQuota] | None
    ranges: View[NamespaceRange] | None

    @property
    def revisions(self) -> tuple[int, int]:
        """What differs when anything has changed."""
        quotas, ranges = self.quotas, self.ranges
        return (-1 if quotas is None else quotas.revision, -1 if ranges is None else ranges.revision)

    def outside(
        self,
        pods: Mapping[Key, OwnPod],
        claims: Iterable[HeldClaim],
        devices: DeviceIndex,
        options: Kubernetes,
        asked: Iterable[AskedClaim] = (),
    ) -> tuple[OutsideQuota, ...]:
        """`pods`: bai's; `asked`: claims of its requests for nodes. Pure."""
        quotas = _all(self.quotas)
        found = outside_quotas(quotas, pods, claims, devices.by_key, options, asked) if quotas else ()
        return (*found, *outside_ranges(_all(self.ranges), options))

    @property
    def cautions(self) -> list[str]:
        """What is not part of plans, in words."""
        hidden = {"ResourceQuotas": self.quotas, "LimitRanges": self.ranges}
        unseen = " and ".join(name for name, view in hidden.items() if view is None)
        if unseen:
            why = "are no part of plans: what they refuse fails when it is made"
            return [f"{unseen} may not be seen, and {why}; deploy/kubernetes/rbac.yaml has the permission"]
        return unplanned_parts(_all(self.quotas))


def _all(view: View[T] | None) -> list[T]:
    return list(view.objects.values()) if view is not None else []


class NamespaceLimits:
    """May be used by several threads."""

    def __init__(self, client: ApiClient, options: Kubernetes) -> None:
        self._quotas = _NamespaceWatch(client, options, "resourcequotas", parse_quota)
        self._ranges = _NamespaceWatch(client, options, "limitranges", parse_limit_range)

    def look(self) -> SeenLimits:
        """Raises ApiRefusal, OSError."""
        return SeenLimits(self._quotas.look(), self._ranges.look())

    def close(self) -> None:
        self._quotas.close()
        self._ranges.close()


class _NamespaceWatch(Generic[T]):
    """Objects of one kind in the namespaces where bai may make pods. Whoever may not see them plans without
    them, and is told."""

    def __init__(
        self, client: ApiClient, options: Kubernetes, resource: str, parse: Callable[[Object], T]
    ) -> None:
        self._options = options
        self._parse_one = parse
        self._reflector: Reflector[T] = Reflector(client, f"/api/v1/{resource}", self._parse)

    def look(self) -> View[T] | None:
        """None where they may not be seen. Raises ApiRefusal, OSError."""
        try:
            return self._reflector.look()
        except ApiRefusal as refusal:
            if refusal.status not in (FORBIDDEN, NOT_FOUND):
                raise
            return None

    def close(self) -> None:
        self._reflector.close()

    def _parse(self, found: Object) -> T | None:
        namespace = str(found["metadata"].get("namespace") or "")
        return self._parse_one(found) if self._options.may_be_ours(namespace) else None
