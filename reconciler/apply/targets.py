"""What an apply acts upon, in one value."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from providers.base import Provider
from providers.storage.base import Storage
from reconciler.apply.node_effects import ProvisionerAccess
from reconciler.observe.existing_memo import ExistingMemo
from reconciler.secrets.reader import NO_SECRETS, SecretReader
from reconciler.store.ownership import session_key_seeds
from reconciler.store.store import Store
from reconciler.values.clock import Clock
from reconciler.values.plan import Plan
from reconciler.values.state import Actual

if TYPE_CHECKING:
    from reconciler.values.services.readiness import Readiness


class Traffic(Protocol):
    """Who hands requests to the replicas of services. Called from several threads."""

    def follow(self, plan: Plan, actual: Actual) -> None:
        """Before anything is changed: from now on new requests go by the weights of this plan, to replicas
        as `actual` has them."""
        ...

    def drain(self, kernel: str, grace: float, waits: Callable[[int], None], stop: threading.Event) -> bool:
        """The kernel gets nothing new from now on. True when it may be stopped: it has no connections, or has
        had `grace` seconds since it was drained first. False where it still has some after a while, and soon
        after `stop` is set: another apply goes on with it. `waits` hears how many are left."""
        ...


class NoTraffic:
    """Nobody hands anything to replicas here."""

    def follow(self, plan: Plan, actual: Actual) -> None:
        return None

    def drain(self, kernel: str, grace: float, waits: Callable[[int], None], stop: threading.Event) -> bool:
        return True


NO_TRAFFIC: Traffic = NoTraffic()


@dataclass(frozen=True)
class ApplyTargets:
    """`storage` looks after the folders of volumes, `provisioning` after nodes that are provisioned;
    `secrets` reads what documents name of secret stores."""

    store: Store
    provider: Provider
    clock: Clock
    storage: Storage | None = None
    provisioning: ProvisionerAccess | None = None
    secrets: SecretReader = NO_SECRETS
    existing_memo: ExistingMemo | None = None
    """What was observed before, so that it is recognised."""
    readiness: Callable[[Actual, Collection[str]], Mapping[str, Readiness]] | None = None
    """How these replicas answer now; None where nobody asks them."""
    traffic: Traffic = NO_TRAFFIC

    @cached_property
    def session_seed(self) -> Callable[[str], str]:
        """What the key pairs of sessions follow from: the key beside the store."""
        return session_key_seeds(self.store)
