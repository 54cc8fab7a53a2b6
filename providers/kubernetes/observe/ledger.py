"""Who has which device, by all claims of the cluster: kept up as they change, so that a question costs the
same whether there are ten or ten thousand."""

from __future__ import annotations

import threading
import time
from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any

from providers.kubernetes.api.client import ApiClient, Object
from providers.kubernetes.api.errors import NOT_FOUND, ApiRefusal
from providers.kubernetes.api.reflector import Key, Reflector, View
from providers.kubernetes.objects.labels import KERNEL, SHARING
from providers.kubernetes.objects.names import RESOURCE_API
from providers.kubernetes.objects.node_request import DEVICE_CLASSES, REQUEST, is_of_request
from providers.kubernetes.objects.sharing import SharingRule, rule_of_claim, user_uids
from schemas.kinds.parts.kubernetes import Kubernetes

SETTLE = 1.0
"""Seconds that a scheduler has to write down what it has chosen: it looks no second time."""

DeviceKey = tuple[str, str, str]
"""Driver, pool and device."""


@dataclass(frozen=True, slots=True)
class HeldClaim:
    """A claim that has devices. `owner`: UID of the pod that it was made for, or that alone uses it; empty
    where there is none."""

    namespace: str
    name: str
    owner: str
    devices: tuple[DeviceKey, ...]
    shares: frozenset[DeviceKey] = frozenset()
    """Those that it has a share of, beside others (`allowMultipleAllocations`)."""
    rule: SharingRule | None = None
    """What holds the kernels that share it, where bai may have made it for that."""
    users: frozenset[str] = frozenset()
    """UIDs of the pods that share it then."""

    def is_of(self, pods: Container[tuple[str, str]]) -> bool:
        """Whether it belongs to one of these, by namespace and UID."""
        return any((self.namespace, uid) in pods for uid in (self.owner, *self.users))


@dataclass(frozen=True, slots=True)
class PendingClaim:
    """A claim of others that has no devices yet: a scheduler may have chosen some, and not said so."""

    uid: str


@dataclass(frozen=True, slots=True)
class AskedClaim:
    """A claim of a request for nodes (`providers.autoscaling`), which is given nothing. `request`: its name;
    `devices`: slot → count."""

    namespace: str
    name: str
    request: str
    devices: tuple[tuple[str, int], ...]


Claim = HeldClaim | PendingClaim | AskedClaim


class DeviceLedger:
    """May be used by several threads."""

    def __init__(self, client: ApiClient, options: Kubernetes) -> None:
        self._options = options
        self._lock = threading.Lock()
        self._decided = threading.Condition(self._lock)
        self._holders: dict[DeviceKey, tuple[HeldClaim, ...]] = {}
        self._pending: set[PendingClaim] = set()
        self._asked: set[AskedClaim] = set()
        self._held: View[HeldClaim] = View({}, -1)
        self._claims: Reflector[Claim] = Reflector(client, f"{RESOURCE_API}/resourceclaims", self._parse)
        self._claims.listen(self._hear)

    def look(self) -> View[HeldClaim]:
        """As it is now; nothing where the server has no such API, as before Kubernetes 1.34. Raises
        ApiRefusal, OSError."""
        view = look_if_there(self._claims)
        with self._lock:
            if view.revision != self._held.revision:
                held = {key: each for key, each in view.objects.items() if isinstance(each, HeldClaim)}
                self._held = View(held, view.revision)
            return self._held

    def follow(self) -> None:
        """From now on it is kept up without a look. Raises ApiRefusal, OSError."""
        self._claims.follow()

    def catch_up(self, claim: Object) -> None:
        """Until all is known that happened before this state of a claim. Raises ApiRefusal, OSError."""
        self._claims.catch_up(int(claim["metadata"]["resourceVersion"]))

    def settle(self) -> None:
        """Until the claims of others that have no devices now have some, or are gone; SETTLE seconds at most.
        All is known then that happened before. Raises ApiRefusal, OSError."""
        deadline = time.monotonic() + SETTLE
        with self._decided:
            pending = frozenset(self._pending)
            while pending & self._pending and (left := deadline - time.monotonic()) > 0:
                self._decided.wait(left)
            undecided = pending & self._pending
        if undecided:
            self._claims.look_anew()

    def forget(self, claim: tuple[Key, str]) -> None:
        """An answer to us said that this one, by its UID, is gone, which the watch may not have told yet."""
        self._claims.forget(*claim)

    def holders(self, device: DeviceKey) -> tuple[HeldClaim, ...]:
        """More than one where it was given away twice: the API server does not look."""
        with self._lock:
            return self._holders.get(device, ())

    def by_device(self) -> Mapping[DeviceKey, tuple[HeldClaim, ...]]:
        with self._lock:
            return dict(self._holders)

    def asked(self) -> tuple[AskedClaim, ...]:
        """Those of requests for nodes, as of the last look."""
        with self._lock:
            return tuple(self._asked)

    def close(self) -> None:
        self._claims.close()

    def _parse(self, claim: Mapping[str, Any]) -> Claim | None:
        return parse_claim(claim) or parse_asked(claim, self._options) or parse_pending(claim, self._options)

    def _hear(self, before: Claim | None, now: Claim | None) -> None:
        with self._decided:
            if isinstance(before, AskedClaim):
                self._asked.discard(before)
            if isinstance(now, AskedClaim):
                self._asked.add(now)
            if isinstance(before, PendingClaim):
                self._pending.discard(before)
                self._decided.notify_all()
            if isinstance(now, PendingClaim):
                self._pending.add(now)
            for device in before.devices if isinstance(before, HeldClaim) else ():
                left = tuple(each for each in self._holders.get(device, ()) if each != before)
                if left:
                    self._holders[device] = left
                else:
                    self._holders.pop(device, None)
            for device in now.devices if isinstance(now, HeldClaim) else ():
                assert isinstance(now, HeldClaim)
                self._holders[device] = (*self._holders.get(device, ()), now)


def parse_claim(claim: Mapping[str, Any]) -> HeldClaim | None:
    """None for one without devices. Looks of administrators (adminAccess) hold nothing. Pure."""
    metadata, status = claim["metadata"], claim.get("status") or {}
    results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or ()
    held = [each for each in results if not each.get("adminAccess")]
    keys = tuple(dict.fromkeys(map(_device_key, held)))
    if not keys:
        return None
    owners = (each for each in metadata.get("ownerReferences") or () if each.get("kind") == "Pod")
    users = status.get("reservedFor") or ()
    # A claim of no pod's own, but used by one alone, is that one's.
    alone = users if len(users) == 1 and not metadata.get("ownerReferences") else ()
    owner = next((str(each.get("uid")) for each in (*owners, *alone)), "")
    shares = frozenset(_device_key(each) for each in held if each.get("shareID"))
    rule = rule_of_claim(claim)
    users = user_uids(claim) if rule is not None else frozenset()
    return HeldClaim(
        str(metadata.get("namespace")), str(metadata.get("name")), owner, keys, shares, rule, users
    )


def parse_asked(claim: Mapping[str, Any], options: Kubernetes) -> AskedClaim | None:
    """None for what is no claim of a request for nodes. Pure."""
    if not is_of_request(claim, options):
        return None
    metadata = claim["metadata"]
    requests = [
        each.get("exactly") or {}
        for each in ((claim.get("spec") or {}).get("devices") or {}).get("requests") or ()
    ]
    slots = {name: slot for slot, name in DEVICE_CLASSES.items()}
    devices = tuple(
        (slots[each["deviceClassName"]], int(each.get("count") or 1))
        for each in requests
        if each.get("deviceClassName") in slots
    )
    name = str(metadata["labels"][REQUEST])
    return AskedClaim(str(metadata.get("namespace")), str(metadata["name"]), name, devices)


def parse_pending(claim: Mapping[str, Any], options: Kubernetes) -> PendingClaim | None:
    """None for one that has been given something, is being deleted, or is bai's, to which no scheduler gives
    anything. Pure."""
    metadata = claim["metadata"]
    if (claim.get("status") or {}).get("allocation") or metadata.get("deletionTimestamp"):
        return None
    labelled = not {KERNEL, SHARING}.isdisjoint(metadata.get("labels") or {})
    if labelled and options.may_be_ours(str(metadata.get("namespace"))):
        return None
    return PendingClaim(str(metadata.get("uid")))


def _device_key(result: Mapping[str, Any]) -> DeviceKey:
    return str(result.get("driver")), str(result.get("pool")), str(result.get("device"))


def look_if_there(reflector: Reflector[Any]) -> View[Any]:
    try:
        return reflector.look()
    except ApiRefusal as refusal:
        if refusal.status != NOT_FOUND:
            raise
        return View({}, 0)
