"""What a workspace is connected to: its store, what runs its sessions, its nodes. Each is opened when it is
first needed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from reconciler.secrets.reader import SecretReader
from reconciler.workspace.kernel_access import KernelAccess
from reconciler.workspace.replica_readiness import ReplicaReadiness
from reconciler.workspace.service_scaling import ServiceScaling
from schemas.problems.errors.store import StoreError

if TYPE_CHECKING:
    from providers.foreign_use import OfferedDevices
    from providers.provisioning import Provisioner
    from providers.storage.base import Storage
    from reconciler.observe.hardware import NodeHardware
    from reconciler.sources.source import Source
    from reconciler.store.database.address import StoreAddress
    from reconciler.values.clock import Clock
    from reconciler.values.records import Lease
    from schemas.hardware.model import Hardware
    from schemas.kinds.cluster import Cluster
    from schemas.repository.repository import Repository

_LEASE_TTL = 60.0


class ClusterConnections(KernelAccess):
    """Use as a context manager, or call `close`. Raises StoreError and ProviderError when a connection is
    first needed."""

    def __init__(
        self, source: Source, repository: Repository, cluster: Cluster, state: StoreAddress, clock: Clock
    ) -> None:
        """`secrets` are what documents name of secret stores; the same one for all that is opened here."""
        nodes, secrets = repository.nodes_of(cluster.name), SecretReader(repository.stores)
        super().__init__(source, cluster, nodes, secrets, state, clock)
        self.repository = repository
        self._hardware: dict[bool, NodeHardware] = {}
        self._recorded_hardware: dict[str, Hardware] = {}
        self.replicas = ReplicaReadiness(clock.now)
        self.scaling = ServiceScaling(clock.now)

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
                self.nodes,
                self.existing_reader,
                self.cluster.name,
                provider=None if offline else lambda: self.provider,
                reprobe=reprobe,
            )
            self._keep_hardware(found, offline=offline)
        return self._hardware[offline]

    def find_more_hardware(self, known: NodeHardware, offered: OfferedDevices) -> NodeHardware:
        """What is known, after a new probe of the nodes that offer devices nobody knew of."""
        from reconciler.observe.hardware import probe_again
        from reconciler.plan.decide.withdrawn_devices import newly_offered

        if not (more := newly_offered(known.hardware, offered)):
            return known
        found = probe_again(known, self.provider, more)
        self._keep_hardware(found, offline=False)
        return found

    def _keep_hardware(self, found: NodeHardware, *, offline: bool) -> None:
        self._hardware[offline] = found
        if found.remote:
            with contextlib.suppress(StoreError):  # The next plan probes again.
                self.record_hardware(found.remote)

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
        self._close_provider()

    def close(self) -> None:
        self.replicas.halt()
        self.scaling.halt()
        self._close_storage()
        super().close()

    def _close_storage(self) -> None:
        if (opened := vars(self).pop("storage", None)) is not None:
            opened.close()

    def take_connections(self, before: ClusterConnections) -> None:
        """Those of a workspace that is not used any more: its store, and what else rests on nothing that
        has changed since. The rest of them is closed."""
        self._store, self._reader, self._repo = before._store, before._reader, before._repo
        self.secrets = before.secrets
        self.secrets.use_stores(self.repository.stores)
        self._given_provider = before._given_provider
        self.replicas, self.scaling = before.replicas, before.scaling
        if before.cluster == self.cluster and before.nodes == self.nodes:
            self._provider = before._provider
            self._hardware = before._hardware
            if "storage" in vars(before):
                vars(self)["storage"] = before.storage
        else:
            before._close_provider()
            before._close_storage()

    @contextlib.contextmanager
    def lease(self, holder: str) -> Iterator[Lease]:
        """The right to write, given back at the end. Raises LeaseHeld."""
        lease = self.store.acquire(self.cluster.name, holder, _LEASE_TTL, self.clock.now())
        try:
            yield lease
        finally:
            self.store.release(lease)
