"""The replicas of a service as a server tells of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from bai.cli.services.log_choice import LogChoice
from bai.cli.services.replica_logs import ReplicaLog
from bai.cli.sessions.remote_logs import log_params
from bai.queries.models import GetQuery
from bai.queries.names.service_names import service_part
from schemas.problems.errors.server import NotOnServer
from schemas.values.envelope import SERVICE_LABEL
from schemas.values.resource_ref import ref_of

if TYPE_CHECKING:
    from bai.remote.cluster import RemoteCluster


@dataclass(frozen=True, slots=True)
class RemoteReplicas:
    """`service`: identity."""

    remote: RemoteCluster
    service: str
    choice: LogChoice

    @classmethod
    def find(cls, remote: RemoteCluster, name: str, choice: LogChoice) -> Self | None:
        """None for what names no service. Raises ServerError."""
        rest = service_part(name)
        if not rest:
            return None
        try:
            return cls(remote, str(remote.service(rest)["id"]), choice)
        except NotOnServer as error:
            if _names_session(remote, name):
                return None
            raise error from None

    def look(self) -> Sequence[ReplicaLog]:
        """Raises NotOnServer once the service is gone."""
        self.remote.service(self.service)
        ref = ref_of(self.service)
        query = GetQuery.of(
            kind="Session", project=ref.project, selector=f"{SERVICE_LABEL}={ref.name}", form="json"
        )
        items = self.remote.read(query).document.get("items")
        sessions = [each for each in items if isinstance(each, dict)] if isinstance(items, list) else []
        return [log for each in sessions for log in self._logs(each)]

    def _logs(self, session: dict[str, Any]) -> Iterator[ReplicaLog]:
        """Of its containers that were seen."""
        name = ref_of(str(session.get("id"))).name
        kernels = session.get("kernels")
        for each in kernels if isinstance(kernels, list) else ():
            named = each if isinstance(each, dict) else {}
            kernel, id_ = (str(named.get(key) or "") for key in ("name", "id"))
            if id_ and self.choice.has(kernel):
                yield ReplicaLog(self.choice.name(name, kernel), id_, self._reader(name, kernel))

    def _reader(self, name: str, kernel: str) -> Callable[[bool], Iterator[bytes]]:
        project = ref_of(self.service).project

        def read(came: bool) -> Iterator[bytes]:
            wanted = self.choice.request(came)
            params = {**log_params(wanted), "kernel": kernel}
            return self.remote.logs(project, name, params, follow=wanted.follow)

        return read


def _names_session(remote: RemoteCluster, name: str) -> bool:
    try:
        remote.session(name)
    except NotOnServer:
        return False
    return True
