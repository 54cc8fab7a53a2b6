"""How many devices all pods of a node ask for, kept up as they change: so that nobody is given more than
there is, whatever came between a plan and its apply."""

from __future__ import annotations

import threading
from collections import Counter

from providers.kubernetes.api.reflector import Reflector
from providers.kubernetes.observe.foreign import ForeignPod
from providers.kubernetes.observe.pods import OwnPod

Pod = OwnPod | ForeignPod


class CountLedger:
    """Of pods that are bound, and have not ended. May be used by several threads."""

    def __init__(self, pods: Reflector[Pod]) -> None:
        self._pods = pods
        self._lock = threading.Lock()
        self._asked: Counter[tuple[str, str]] = Counter()
        pods.listen(self._hear)

    def follow(self) -> None:
        """From now on it is kept up without a look. Raises ApiRefusal, OSError."""
        self._pods.follow()

    def look_anew(self) -> None:
        """Until all is known that has happened by now. Raises ApiRefusal, OSError."""
        self._pods.look_anew()

    def asked(self, node: str, resource: str) -> int:
        with self._lock:
            return self._asked[node, resource]

    def _hear(self, before: Pod | None, now: Pod | None) -> None:
        changes = [(pod, sign) for pod, sign in ((before, -1), (now, 1)) if pod is not None and pod.counted]
        if not changes:
            return
        with self._lock:
            for pod, sign in changes:
                for resource, amount in pod.counted.items() if pod.node else ():
                    self._asked[pod.node, resource] += sign * amount
                    if not self._asked[pod.node, resource]:
                        del self._asked[pod.node, resource]
