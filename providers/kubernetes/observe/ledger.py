"""Who has which device, by all claims of the cluster: kept up as they change, so that a question costs the
same whether there are ten or ten thousand."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from providers.kubernetes.api.client import ApiClient, Object
from providers.kubernetes.api.errors import NOT_FOUND, ApiRefusal
from providers.kubernetes.api.reflector import Reflector, View
from providers.kubernetes.objects.names import RESOURCE_API

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


class DeviceLedger:
    """May be used by several threads."""

    def __init__(self, client: ApiClient) -> None:
        self._lock = threading.Lock()
        self._holders: dict[DeviceKey, tuple[HeldClaim, ...]] = {}
        self._claims = Reflector(client, f"{RESOURCE_API}/resourceclaims", parse_claim)
        self._claims.listen(self._hear)

    def look(self) -> View[HeldClaim]:
        """As it is now; nothing where the server has no such API, as before Kubernetes 1.34. Raises
        ApiRefusal, OSError."""
        return look_if_there(self._claims)

    def follow(self) -> None:
        """From now on it is kept up without a look. Raises ApiRefusal, OSError."""
        self._claims.follow()

    def catch_up(self, claim: Object) -> None:
        """Until all is known that happened before this state of a claim. Raises ApiRefusal, OSError."""
        self._claims.catch_up(int(claim["metadata"]["resourceVersion"]))

    def holders(self, device: DeviceKey) -> tuple[HeldClaim, ...]:
        """More than one where it was given away twice: the API server does not look."""
        with self._lock:
            return self._holders.get(device, ())

    def by_device(self) -> Mapping[DeviceKey, tuple[HeldClaim, ...]]:
        with self._lock:
            return dict(self._holders)

    def close(self) -> None:
        self._claims.close()

    def _hear(self, before: HeldClaim | None, now: HeldClaim | None) -> None:
        with self._lock:
            for device in before.devices if before is not None else ():
                left = tuple(each for each in self._holders.get(device, ()) if each != before)
                if left:
                    self._holders[device] = left
                else:
                    self._holders.pop(device, None)
            for device in now.devices if now is not None else ():
                assert now is not None
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
    return HeldClaim(str(metadata.get("namespace")), str(metadata.get("name")), owner, keys, shares)


def _device_key(result: Mapping[str, Any]) -> DeviceKey:
    return str(result.get("driver")), str(result.get("pool")), str(result.get("device"))


def look_if_there(reflector: Reflector[Any]) -> View[Any]:
    try:
        return reflector.look()
    except ApiRefusal as refusal:
        if refusal.status != NOT_FOUND:
            raise
        return View({}, 0)
