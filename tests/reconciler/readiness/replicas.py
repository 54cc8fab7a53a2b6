"""Replicas of a service as values, and servers in this process that stand for them."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, cast

from providers.base import Labels, Observed, Provider
from providers.machines.base import Stream
from reconciler.observe.readiness.ask import ask
from reconciler.observe.readiness.questions import Question, Replica, find_replicas
from reconciler.observe.readiness.standing import Answer, Ask
from reconciler.values.records import Recorded
from reconciler.values.services.pattern import ServicePattern, pattern_of, replica_session
from reconciler.values.state import Actual, Desired, Existing
from schemas.kinds.cluster import Cluster
from schemas.kinds.service import Service
from schemas.kinds.session import Session
from schemas.problems.errors.kernel import PortRefused
from schemas.values.canonical import canonical_document

STARTED = datetime(2026, 1, 1, tzinfo=UTC)
HTTP = {"name": "http", "port": 8000}
CLUSTER = Cluster.model_validate(
    {"apiVersion": "bai/v1", "kind": "Cluster", "metadata": {"name": "here"}, "spec": {"provider": "process"}}
)


def pattern(
    ports: tuple[Mapping[str, Any], ...] = (HTTP,), command: tuple[str, ...] = ("serve",), **spec: Any
) -> ServicePattern:
    template = {"command": list(command), "ports": [dict(each) for each in ports]}
    head = {"apiVersion": "bai/v1", "metadata": {"name": "web", "project": "p"}}
    service = Service.model_validate({**head, "kind": "Service", "spec": {"template": template, **spec}})
    session = Session.model_validate({**head, "kind": "Session", "spec": template})
    return pattern_of(service, session)


def existing(
    of: ServicePattern, number: int = 1, *, phase: str = "RUNNING", kernel: str = "", run: int = 1,
    started: datetime | None = STARTED, restarts: int = 0,
) -> Existing:  # fmt: skip
    session = replica_session(of.session, of.generation, number)
    kernel = kernel or f"{session.name}-main1-00000000-g{run}"
    labels = Labels("repo", "here", session.identity, run, "d", "main1", "n1")
    record = Recorded(
        session.identity, "here", run, "d", document=canonical_document(session), phase="RUNNING",
        kernels=(kernel,),
    )  # fmt: skip
    seen = Observed(kernel, labels, "running", started=started, restarts=restarts)
    return Existing(session.identity, record, phase, (seen,) if started is not None else ())


def desired(*services: ServicePattern) -> Desired:
    found = {each.service.identity: each for each in services}
    return Desired("repo", "here", "", "", cast(Any, None), {}, {}, {}, found)


def actual(*found: Existing) -> Actual:
    return Actual("repo", "here", {each.id: each for each in found})


def replicas(of: ServicePattern, *found: Existing) -> dict[str, Replica]:
    return find_replicas(desired(of), actual(*(found or (existing(of),))))


def replica(of: ServicePattern, found: Existing | None = None) -> Replica:
    (one,) = replicas(of, found or existing(of)).values()
    return one


def numbered(base: Replica, count: int) -> dict[str, Replica]:
    """So many that are asked the same, each by a kernel of its own."""
    names = [f"{base.identity}-{number}" for number in range(count)]
    return {name: replace(base, identity=name, kernel=name) for name in names}


class Dials:
    """A provider that connects to what `serve` says of a kernel; others refuse."""

    def __init__(self) -> None:
        self.ports: dict[str, int] = {}

    def dial(self, kernel_id: str, port: int) -> Stream:
        try:
            stream = socket.create_connection(("127.0.0.1", self.ports.get(kernel_id, 1)), timeout=60)
        except OSError as error:
            why = "connection refused"
            raise PortRefused(provider="test", kernel=kernel_id, port=port, why=why) from error
        return stream

    @property
    def ask(self) -> Ask:
        return partial(ask, cast(Provider, self), CLUSTER)


@contextlib.contextmanager
def server(talk: Callable[[socket.socket], None]) -> Iterator[int]:
    """A port whose every connection is talked to in a thread of its own."""
    listener = socket.create_server(("127.0.0.1", 0))

    def run(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            talk(connection)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=run, args=(listener.accept()[0],), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def answers(head: bytes) -> Callable[[socket.socket], None]:
    """Reads what is asked, and says this."""

    def talk(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(head)

    return talk


def asked(ask_it: Ask, of: Replica, question: Question | None = None) -> Answer:
    chosen = question or of.readiness
    assert chosen is not None
    return ask_it(of, chosen)
