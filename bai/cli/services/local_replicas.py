"""The replicas of a service as this machine sees them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from bai.cli.services.log_choice import LogChoice
from bai.cli.services.replica_logs import ReplicaLog
from bai.cli.sessions.find import observe_sessions
from bai.cli.sessions.logs import read_logs
from bai.queries.names.service_names import find_service
from bai.queries.services.facts import known_services, replicas_of
from bai.render.humanize import clean
from schemas.problems.errors.command import NoSuchResource
from schemas.values.resource_ref import ref_of

if TYPE_CHECKING:
    from providers.base import Observed
    from reconciler.workspace.kernel_access import KernelAccess


@dataclass(frozen=True, slots=True)
class LocalReplicas:
    """`service`: identity."""

    access: KernelAccess
    service: str
    choice: LogChoice

    @classmethod
    def find(cls, access: KernelAccess, name: str, choice: LogChoice) -> Self | None:
        """None for what names no service. Raises NoSuchResource, AmbiguousName."""
        service = find_service(name, known_services(observe_sessions(access)))
        return cls(access, service, choice) if service else None

    def look(self) -> Sequence[ReplicaLog]:
        """Raises NoSuchResource once neither a record nor a replica is left."""
        actual = observe_sessions(self.access)
        if self.service not in known_services(actual):
            raise NoSuchResource(what="service", name=clean(self.service))
        found = []
        for item in replicas_of(actual, self.service):
            name = ref_of(item.id).name
            kernels = sorted(item.kernels, key=lambda each: each.labels.kernel)
            found += [self._log(name, each) for each in kernels if self.choice.has(each.labels.kernel)]
        return found

    def _log(self, name: str, kernel: Observed) -> ReplicaLog:
        def read(came: bool) -> Iterator[bytes]:
            wanted = self.choice.request(came)
            return read_logs(self.access.provider, self.access.cluster, kernel.id, wanted)

        return ReplicaLog(self.choice.name(name, kernel.labels.kernel), kernel.id, read)
