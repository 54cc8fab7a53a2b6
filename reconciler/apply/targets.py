"""What an apply acts upon, in one value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from providers.base import Provider
from providers.storage.base import Storage
from reconciler.apply.node_effects import ProvisionerAccess
from reconciler.observe.existing_memo import ExistingMemo
from reconciler.secrets.reader import NO_SECRETS, SecretReader
from reconciler.store.ownership import session_key_seeds
from reconciler.store.store import Store
from reconciler.values.clock import Clock


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

    @cached_property
    def session_seed(self) -> Callable[[str], str]:
        """What the key pairs of sessions follow from: the key beside the store."""
        return session_key_seeds(self.store)
