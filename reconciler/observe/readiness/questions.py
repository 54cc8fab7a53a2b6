"""Which replicas are asked what: each by the probes of its own generation. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from reconciler.values.documents.service_replicas import replica_of
from reconciler.values.services.probes import probes_of

if TYPE_CHECKING:
    from datetime import datetime

    from reconciler.values.state import Actual, Desired, Existing
    from schemas.kinds.service import Probe

How = Literal["http", "tcp", "command"]
PERIOD, TIMEOUT, FAILURES = 5.0, 2.0, 3
"""Of the question that is asked where a document names none: those of a probe that says nothing of them."""


@dataclass(frozen=True, slots=True)
class Question:
    """`period`, `timeout` and `grace` in seconds. `port`: where the main container really serves it."""

    how: How
    what: str
    """What is asked, in words."""
    port: int = 0
    tls: bool = False
    path: str = ""
    command: tuple[str, ...] = ()
    period: float = PERIOD
    timeout: float = TIMEOUT
    failures: int = FAILURES
    grace: float = 0.0


@dataclass(frozen=True, slots=True)
class Run:
    """What a replica's answers hold for: its kernels since they were started last."""

    generation: int
    kernels: tuple[str, ...]
    starts: Mapping[str, tuple[datetime | None, int]]
    """Kernel → when it was started, and how many times again; of those that were seen."""

    def goes_on_in(self, later: Run) -> bool:
        """Whether a later look shows the same one; kernels that one of the two looks has not seen are taken
        to be as they were."""
        if (self.generation, self.kernels) != (later.generation, later.kernels):
            return False
        return all(self.starts[each] == later.starts[each] for each in self.starts.keys() & later.starts)

    def with_later(self, later: Run) -> Run:
        """What both have seen."""
        return Run(self.generation, self.kernels, {**self.starts, **later.starts})

    @property
    def began(self) -> float | None:
        """When the last of its kernels was started, in seconds since the epoch; None where none was seen."""
        times = [started.timestamp() for started, _ in self.starts.values() if started is not None]
        return max(times, default=None)


@dataclass(frozen=True, slots=True)
class Replica:
    """One that has a readiness. `kernel`: the main container's. Without a question it is ready when it
    runs."""

    identity: str
    kernel: str
    phase: str
    run: Run
    readiness: Question | None = None
    liveness: Question | None = None

    @property
    def runs(self) -> bool:
        return self.phase == "RUNNING"


def find_replicas(desired: Desired, actual: Actual) -> dict[str, Replica]:
    """Identity → each replica of a service that is there. A session that has a document is nobody's."""
    found, documents = {}, desired.sessions()
    for identity, existing in actual.existing.items():
        ref = replica_of(existing) if identity not in documents else None
        if ref is not None and ref.service in desired.services and existing.recorded.kernels:
            found[identity] = _replica(identity, existing)
    return found


def _replica(identity: str, existing: Existing) -> Replica:
    record = existing.recorded
    probes = probes_of(record.document)
    starts = {each.id: (each.started, each.restarts) for each in existing.kernels}
    run = Run(record.generation, record.kernels, starts)
    readiness = _asked(probes.readiness, existing) if probes.readiness is not None else _connect(existing)
    liveness = probes.liveness
    alive = _asked(liveness, existing, liveness.grace) if liveness is not None else None
    return Replica(identity, record.kernels[0], existing.phase, run, readiness, alive)


def _asked(probe: Probe, existing: Existing, grace: float = 0.0) -> Question | None:
    """None where it asks for a port, and the replica has none at all."""
    common = (float(probe.period), float(probe.timeout), probe.failures, float(grace))
    if probe.command is not None:
        return Question("command", f"`{probe.command[0]}`", 0, False, "", probe.command, *common)
    check = probe.http or probe.tcp
    assert check is not None, "a probe asks one of three"
    port = _find_port(existing, check.port)
    if port is None:
        return None
    name, number, tls = port
    if probe.http is not None:
        words = f"GET {probe.http.path} of port {name}"
        return Question("http", words, number, tls, probe.http.path, (), *common)
    return Question("tcp", f"port {name}", number, False, "", (), *common)


def _connect(existing: Existing) -> Question | None:
    port = _find_port(existing, "")
    return Question("tcp", f"port {port[0]}", port[1]) if port is not None else None


def _find_port(existing: Existing, name: str) -> tuple[str, int, bool] | None:
    """The name and number of the port of this name, else of the first one that can be connected to, and
    whether it speaks TLS."""
    spec = existing.recorded.document.get("spec")
    listed = spec.get("ports") if isinstance(spec, Mapping) else None
    ports = [each for each in listed or () if each.get("protocol") != "udp"]
    if not ports:
        return None
    chosen = next((each for each in ports if each["name"] == name), ports[0])
    placement = existing.recorded.placement
    number = int(chosen["port"])
    if placement is not None and placement.kernels:
        number = placement.kernels[0].listening(number)
    return str(chosen["name"]), number, chosen.get("protocol") == "https"
