"""What an apply acts upon, in one value."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from providers.base import Provider
from providers.storage.base import Storage
from reconciler.apply.node_effects import ProvisionerAccess
from reconciler.observe.existing_memo import ExistingMemo
from reconciler.secrets.reader import NO_SECRETS, SecretReader
from reconciler.store.ownership import session_key_seeds
from reconciler.store.store import Store
from reconciler.values.clock import Clock

if TYPE_CHECKING:
    from reconciler.values.services.readiness import Readiness
    from reconciler.values.state import Actual


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

    @cached_property
    def session_seed(self) -> Callable[[str], str]:
        """What the key pairs of sessions follow from: the key beside the store."""
        return session_key_seeds(self.store)
