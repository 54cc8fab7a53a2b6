"""The replicas of a service as this machine sees them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from bai.cli.services.replica_logs import ReplicaLog
from bai.cli.sessions.find import observe_sessions
from bai.cli.sessions.logs import LogRequest, read_logs
from bai.queries.names.service_names import find_service
from bai.queries.services.facts import known_services, replicas_of
from bai.render.humanize import clean
from schemas.problems.errors.command import NoSuchResource
from schemas.values.resource_ref import ref_of

if TYPE_CHECKING:
    from providers.base import Observed
    from reconciler.workspace.kernel_access import KernelAccess

MAIN = "main1"


@dataclass(frozen=True, slots=True)
class LocalReplicas:
    """`service`: identity. `all`: of all containers of each replica."""

    access: KernelAccess
    service: str
    wanted: LogRequest
    all: bool

    @classmethod
    def find(cls, access: KernelAccess, name: str, wanted: LogRequest, *, all: bool) -> Self | None:
        """None for what names no service. Raises NoSuchResource, AmbiguousName."""
        service = find_service(name, known_services(observe_sessions(access)))
        return cls(access, service, wanted, all) if service else None

    def look(self) -> Sequence[ReplicaLog]:
        """Raises NoSuchResource once neither a record nor a replica is left."""
        actual = observe_sessions(self.access)
        if self.service not in known_services(actual):
            raise NoSuchResource(what="service", name=clean(self.service))
        found = []
        for item in replicas_of(actual, self.service):
            name = ref_of(item.id).name
            kernels = sorted(item.kernels, key=lambda each: each.labels.kernel)
            found += [self._log(name, each) for each in kernels if self.all or each.labels.kernel == MAIN]
        return found

    def _log(self, name: str, kernel: Observed) -> ReplicaLog:
        shown = f"{name}/{kernel.labels.kernel}" if self.all else name

        def read(came: bool) -> Iterator[bytes]:
            wanted = replace(self.wanted, tail=None, since=None) if came else self.wanted
            return read_logs(self.access.provider, self.access.cluster, kernel.id, wanted)

        return ReplicaLog(shown, kernel.id, read)
