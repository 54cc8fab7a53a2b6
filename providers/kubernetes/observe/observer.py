"""All that is looked at of a cluster, as views that stay up to date."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from providers.base import Claim, Observation
from providers.kubernetes.api.client import ApiClient, Object
from providers.kubernetes.api.errors import api_errors
from providers.kubernetes.api.reflector import Key, Reflector, View
from providers.kubernetes.discovery.features import KEYS
from providers.kubernetes.objects.device import Device
from providers.kubernetes.objects.names import RESOURCE_API
from providers.kubernetes.objects.sharing import SharingRule
from providers.kubernetes.observe.devices import DeviceIndex, devices_of
from providers.kubernetes.observe.foreign import ForeignPod, foreign_uses, parse_foreign_pod
from providers.kubernetes.observe.ledger import AskedClaim, DeviceKey, DeviceLedger, HeldClaim, look_if_there
from providers.kubernetes.observe.namespace_limits import NamespaceLimits, SeenLimits
from providers.kubernetes.observe.node_asks import NOTHING, NodeAskWatch, SeenAsks, kept_labels, node_asks
from providers.kubernetes.observe.nodes import ClusterNode, parse_node
from providers.kubernetes.observe.offered import offered_devices, with_counted
from providers.kubernetes.observe.plugins.count_ledger import CountLedger
from providers.kubernetes.observe.plugins.use import counted_use
from providers.kubernetes.observe.pods import OwnPod, is_ours, parse_pod
from providers.kubernetes.observe.shared_claims import SharedClaims
from providers.kubernetes.observe.start_waits import StartWaits
from schemas.kinds.parts.kubernetes import Kubernetes
from schemas.problems.errors.provider import ProviderError

Pod = OwnPod | ForeignPod


@dataclass(frozen=True, slots=True)
class ClusterViews:
    """What was seen of the cluster at one moment."""

    pods: View[Pod]
    nodes: View[ClusterNode]
    claims: View[HeldClaim]
    holders: Mapping[DeviceKey, tuple[HeldClaim, ...]]
    devices: DeviceIndex
    limits: SeenLimits
    asked_claims: tuple[AskedClaim, ...] = ()
    asks: SeenAsks = NOTHING

    @property
    def known_nodes(self) -> dict[str, ClusterNode]:
        return {name: node for (_, name), node in self.nodes.objects.items()}


class Observer:
    """May be used by several threads. `nodes`: names that the repository gives; empty: all of the cluster."""

    def __init__(self, client: ApiClient, options: Kubernetes, nodes: Iterable[str]) -> None:
        self._options = options
        self._wanted = frozenset(nodes)
        self.pods: Reflector[Pod] = Reflector(client, "/api/v1/pods", self._parse_pod)
        self.nodes: Reflector[ClusterNode] = Reflector(
            client, "/api/v1/nodes", partial(parse_node, labels=kept_labels(options) | KEYS)
        )
        self.slices: Reflector[Object] = Reflector(client, f"{RESOURCE_API}/resourceslices", _slice)
        self.classes: Reflector[Object] = Reflector(client, f"{RESOURCE_API}/deviceclasses", _class)
        self.ledger = DeviceLedger(client, options)
        self.counts = CountLedger(self.pods)
        self.shared_claims = SharedClaims(self.ledger)
        self.limits = NamespaceLimits(client, options)
        self.asks = NodeAskWatch(client, options)
        self._devices: tuple[int, DeviceIndex] = (-1, DeviceIndex(()))
        self.told_cores: frozenset[str] = frozenset()
        """Nodes whose cores can be given one by one, by the last observation: plans rest on that."""
        self._last: tuple[tuple[object, ...], Observation] | None = None
        self._seen: ClusterViews | None = None
        self._unused = False
        self._spent: dict[Key, OwnPod] = {}
        self._waits = StartWaits(client)

    def observe(self) -> Observation:
        """Never raises: where the cluster cannot be asked, it is not complete."""
        try:
            with api_errors():
                views = self._seen if self._seen is not None and self._unused else self._look()
        except ProviderError as error:
            return Observation((), complete=False, errors=(str(error),))
        self._unused = False
        revisions = (
            views.pods.revision, views.nodes.revision, views.claims.revision, self._devices[0],
            views.limits.revisions, views.asks.revisions,
        )  # fmt: skip
        self._waits.look()
        if self._last is not None and self._last[0] == (*revisions, *self._waits.revisions):
            return self._last[1]
        found = self._put_together(views)
        self._last = ((*revisions, *self._waits.revisions), found)
        return found

    def spent_pods(self) -> dict[Key, OwnPod]:
        """Those that kubelets go on restarting, of the last look."""
        return self._spent

    def last_seen(self) -> ClusterViews:
        """As it was last seen; looks where nobody has yet, and then the next observation is of that look.
        Raises ApiRefusal, OSError."""
        if self._seen is None:
            self._look()
            self._unused = True
        assert self._seen is not None
        return self._seen

    def has_seen(self, pod: Key) -> bool:
        """Whether it was there at the last look; asks nobody."""
        return self._seen is not None and pod in self._seen.pods.objects

    def _look(self) -> ClusterViews:
        looks: list[Callable[[], Any]] = [
            self.pods.look, self.nodes.look, self.ledger.look, self.devices, self.limits.look,
            self.asks.look,
        ]  # fmt: skip
        with ThreadPoolExecutor(len(looks), "bai-look") as pool:
            begun = [pool.submit(look) for look in looks]
            pods, nodes, claims, devices, limits, asks = [each.result() for each in begun]
        self._seen = ClusterViews(
            pods, nodes, claims, self.ledger.by_device(), devices, limits, self.ledger.asked(), asks
        )
        return self._seen

    def devices(self) -> DeviceIndex:
        """All that drivers publish; none where the cluster has no such API. Raises ApiRefusal, OSError."""
        view = look_if_there(self.slices)
        if view.revision != self._devices[0]:
            self._devices = (view.revision, DeviceIndex(devices_of(view.objects.values())))
        return self._devices[1]

    def last_devices(self) -> DeviceIndex:
        """As last seen; looks where nobody has yet. Raises ApiRefusal, OSError."""
        return self._devices[1] if self._devices[0] >= 0 else self.devices()

    def device_classes(self) -> dict[str, Object]:
        """By name; none where the cluster has no such API. Raises ApiRefusal, OSError."""
        return {name: found for (_, name), found in look_if_there(self.classes).objects.items()}

    def shared_names(self, namespace: str, devices: Sequence[Device], rule: SharingRule) -> list[str]:
        """Claims by which pods of this namespace share these devices. Raises ApiRefusal, OSError."""
        if not devices:
            return []
        self.ledger.follow()
        pods = self._seen.pods.objects.values() if self._seen is not None else ()
        own = (pod for pod in pods if isinstance(pod, OwnPod))
        begun = [name for pod in own if pod.namespace == namespace and not pod.node for name in pod.shared]
        return [self.shared_claims.name_of(namespace, device, rule, begun) for device in devices]

    def _parse_pod(self, pod: Object) -> Pod | None:
        if is_ours(pod, self._options):
            return parse_pod(pod)
        return parse_foreign_pod(pod)

    def _put_together(self, views: ClusterViews) -> Observation:
        pods, devices, known = views.pods, views.devices, views.known_nodes
        self._spent = {
            key: pod
            for key, pod in pods.objects.items()
            if isinstance(pod, OwnPod) and pod.spent and not pod.given_up
        }
        own = {key: pod for key, pod in pods.objects.items() if isinstance(pod, OwnPod)}
        # Bound to another node than its labels name: what bai decided is not what is there.
        strayed = {key for key, pod in own.items() if pod.node and pod.node != pod.kernel.labels.node}
        foreign = [pod for pod in pods.objects.values() if isinstance(pod, ForeignPod)]
        wanted = self._wanted or known.keys()
        # A pod of others that nobody can read is theirs alone.
        unread = [one for one in sorted(self.pods.broken.items()) if self._options.may_be_ours(one[0][0])]
        why = self._waits.reasons(own)
        kernels = (
            replace(pod.kernel, reason=why[key]) if key in why else pod.kernel
            for key, pod in own.items()
            if key not in strayed
        )
        there = [node for name, node in known.items() if name in wanted]
        counted = counted_use(there, devices, own.values(), foreign)
        offered = with_counted(offered_devices(devices), counted.offered)
        if self._last is not None and self._last[1].offered == offered:
            offered = self._last[1].offered or offered  # The same value: plans rest on it.
        self.told_cores = offered.cores
        uses = foreign_uses(
            there,
            foreign,
            devices,
            views.holders,
            frozenset((each.namespace, each.uid) for each in own.values()),
            counted.taken,
        )
        return Observation(
            tuple(sorted(kernels, key=lambda each: each.id)),
            complete=not unread,
            errors=tuple(
                f"pod {namespace}/{name} cannot be read: {why}" for (namespace, name), why in unread
            ),
            claimed=tuple(Claim(own[key].kernel.id, own[key].node) for key in sorted(strayed)),
            unreachable=_unreachable(wanted, known),
            cordoned={node.name: node.cordoned for node in there if node.cordoned},
            foreign=uses,
            quotas=views.limits.outside(
                own, views.claims.objects.values(), devices, self._options, views.asked_claims
            ),
            offered=offered,
            node_asks=node_asks(views.asks, known.values(), frozenset(wanted), self._options),
        )

    def close(self) -> None:
        watched = (
            self.pods, self.nodes, self.slices, self.classes, self.ledger, self.limits, self.asks,
            self._waits,
        )  # fmt: skip
        for each in watched:
            each.close()


def double_allocations(views: ClusterViews) -> dict[str, tuple[str, ...]]:
    """Devices that were given to more than one claim, with these claims, where one has it for itself: the
    API server does not look. Pure."""
    twice = {
        key: found
        for key, found in views.holders.items()
        if len(found) > 1 and any(key not in each.shares for each in found)
    }
    return {
        views.devices.id_of(key): tuple(f"{each.namespace}/{each.name}" for each in found)
        for key, found in sorted(twice.items())
    }


def _unreachable(wanted: Iterable[str], known: Mapping[str, ClusterNode]) -> dict[str, str]:
    found = {}
    for name in sorted(wanted):
        node = known.get(name)
        why = node.unreachable if node is not None else "the cluster has no node of this name"
        if why:
            found[name] = why
    return found


def _slice(found: Object) -> Object:
    return {"spec": found.get("spec") or {}}


def _class(found: Object) -> Object:
    return {"metadata": {"name": found["metadata"]["name"]}, "spec": found.get("spec") or {}}
