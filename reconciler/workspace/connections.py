"""What a workspace is connected to: its store, what runs its sessions, its nodes. Each is opened when it is
first needed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from reconciler.secrets.reader import SecretReader
from reconciler.store.database.address import StoreAddress
from reconciler.values.clock import Clock
from schemas.hardware.model import Hardware
from schemas.kinds.cluster import Cluster
from schemas.problems.errors.store import StoreError
from schemas.repository.repository import Repository
from schemas.values.memo import Memo

if TYPE_CHECKING:
    from providers.base import Provider
    from providers.machines.base import Endpoint
    from providers.provisioning import Provisioner
    from providers.storage.base import Storage
    from reconciler.observe.hardware import NodeHardware
    from reconciler.store.store import Store
    from reconciler.values.records import Lease

_LEASE_TTL = 60.0


class ClusterConnections:
    """Use as a context manager, or call `close`. Raises StoreError and ProviderError when a connection is
    first needed."""

    def __init__(self, repository: Repository, cluster: Cluster, state: StoreAddress, clock: Clock) -> None:
        self.repository = repository
        self.cluster = cluster
        self.state = state
        """Where the store is."""
        self.clock = clock
        self.secrets = SecretReader(repository.stores)
        """What documents name of secret stores; the same one for all that is opened here."""
        self._store: Store | None = None
        self._provider: Provider | None = None
        self._given_provider: Provider | None = None
        self._hardware: dict[bool, NodeHardware] = {}
        self._recorded_hardware: dict[str, Hardware] = {}
        self._endpoints: Memo[str, tuple[Endpoint, ...]] = Memo()

    @property
    def has_store(self) -> bool:
        """Whether anything was ever written down here. A server that was named is there, or says why not."""
        return self._store is not None or self.state.path is None or self.state.path.exists()

    @property
    def store(self) -> Store:
        if self._store is None:
            from reconciler.store.store import Store

            self._store = Store.open(self.state)
        return self._store

    @property
    def existing_store(self) -> Store | None:
        """The store; None where nothing was ever written down."""
        return self.store if self.has_store else None

    @property
    def provider(self) -> Provider:
        if self._provider is None:
            self._provider = self._given_provider or self._open_provider()
        return self._provider

    @provider.setter
    def provider(self, provider: Provider) -> None:
        """Another one than the cluster's document names, from here on."""
        self._provider = self._given_provider = provider

    def _open_provider(self) -> Provider:
        from providers.registry import open_provider

        spec = self.cluster.spec
        root = Path(spec.state_root) if spec.state_root else None
        return open_provider(spec.provider, spec.provider_options, state_root=root, machines=self.endpoints())

    def endpoints(self) -> tuple[Endpoint, ...]:
        """How each node of the cluster is reached."""
        from reconciler.observe.endpoints import endpoints

        nodes, spec, secrets = self.repository.nodes_of(self.cluster.name), self.cluster.spec, self.secrets
        return self._endpoints.get(
            "", (nodes, spec, secrets), lambda: endpoints(nodes, spec, secrets.for_infrastructure)
        )

    def _open_provisioner(self) -> Provisioner:
        """Raises ProvisioningImpossible where Ansible cannot run."""
        from providers.ansible import open_provisioner

        forks = self.cluster.spec.provisioning.parallel
        return open_provisioner(self.state.key_file.parent, self.secrets.for_infrastructure, forks=forks)

    @cached_property
    def storage(self) -> Storage | None:
        """What looks after the folders of volumes; None where the nodes' files are not bai's to make."""
        from reconciler.observe.storage_access import open_storage

        return open_storage(self.repository, self.cluster, self.secrets.for_infrastructure)

    def hardware(self, *, offline: bool = False) -> Mapping[str, Hardware]:
        """What the nodes are that declare nothing."""
        return self.find_hardware(offline=offline).hardware

    def find_hardware(self, *, offline: bool = False, reprobe: bool = False) -> NodeHardware:
        """The same, with what was probed for it. What is far away is probed once, and again with
        `reprobe`."""
        from reconciler.observe.hardware import find_hardware

        if reprobe or offline not in self._hardware:
            found = find_hardware(
                self.repository.nodes_of(self.cluster.name),
                self.existing_store,
                self.cluster.name,
                provider=None if offline else lambda: self.provider,
                reprobe=reprobe,
            )
            self._hardware[offline] = found
            if found.remote:
                with contextlib.suppress(StoreError):  # The next plan probes again.
                    self.record_hardware(found.remote)
        return self._hardware[offline]

    def forget_hardware(self) -> None:
        """What nodes are is found out anew: this machine, whom nobody could probe, what others probed."""
        self._hardware = {}

    def record_hardware(self, found: Mapping[str, Hardware]) -> tuple[str, ...]:
        """Remember what was probed; gives the nodes that are not what they were, or are new."""
        from reconciler.observe.hardware import record_hardware

        new = {name: each for name, each in found.items() if self._recorded_hardware.get(name) is not each}
        changed = record_hardware(self.store, self.cluster.name, new, self.clock.now()) if new else ()
        self._recorded_hardware.update(new)
        return changed

    def _reconnect(self) -> None:
        """Nodes are not what they were: they are reached and probed anew."""
        self.forget_hardware()
        if self._provider is not None:
            self._provider.close()
            self._provider = None

    @contextlib.contextmanager
    def lease(self, holder: str) -> Iterator[Lease]:
        """The right to write, given back at the end. Raises LeaseHeld."""
        lease = self.store.acquire(self.cluster.name, holder, _LEASE_TTL, self.clock.now())
        try:
            yield lease
        finally:
            self.store.release(lease)

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
