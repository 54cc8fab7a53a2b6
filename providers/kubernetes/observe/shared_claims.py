"""Which claim is a GPU's that several kernels share: the one that is there, or the one that is being made."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from providers.kubernetes.objects.device import Device
from providers.kubernetes.objects.sharing import SharingRule, new_shared_name, shared_prefix
from providers.kubernetes.observe.ledger import DeviceLedger


class SharedClaims:
    """May be used by several threads: kernels that are made at the same time get the same name."""

    def __init__(self, ledger: DeviceLedger) -> None:
        self._ledger = ledger
        self._lock = threading.Lock()
        self._begun: dict[tuple[str, str], str] = {}
        """Namespace and beginning of the name → the name, of claims that nobody was seen to hold yet."""

    def name_of(self, namespace: str, device: Device, rule: SharingRule, begun: Iterable[str]) -> str:
        """Of the claim by which kernels of this namespace share the device under this rule. `begun`: claims
        of its pods that were made and not started, as by an attempt that was cut off."""
        prefix = shared_prefix(device, rule)
        with self._lock:
            holders = self._ledger.holders(device.key)
            there = (each.name for each in holders if (each.namespace, each.rule) == (namespace, rule))
            name = next(there, None) or self._begun.get((namespace, prefix))
            if name is None:
                name = next((each for each in begun if each.startswith(prefix)), new_shared_name(prefix))
                self._begun[namespace, prefix] = name
            return name

    def note_held(self, namespace: str, device: Device, rule: SharingRule) -> None:
        """The ledger knows it from now on; once it no longer does, another one is made."""
        with self._lock:
            self._begun.pop((namespace, shared_prefix(device, rule)), None)
