"""Whom a service asks what."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from planner.model.types import KernelPlacement, Placement, PortGrant
from reconciler.observe.readiness.questions import find_replicas
from reconciler.values.services.pattern import SERVICE_LABEL, pattern_of
from reconciler.values.services.probes import LIVENESS_ANNOTATION, READINESS_ANNOTATION
from tests.reconciler.readiness.replicas import (
    HTTP,
    STARTED,
    actual,
    desired,
    existing,
    pattern,
    replica,
    replicas,
)


def test_a_service_that_says_nothing_has_its_first_port_connected_to() -> None:
    udp = {"name": "dns", "port": 53, "protocol": "udp"}
    found = replica(pattern((udp, {"name": "rpc", "port": 9000, "protocol": "tcp"}, HTTP)))
    assert found.readiness is not None and found.liveness is None
    assert (found.readiness.how, found.readiness.port, found.readiness.what) == ("tcp", 9000, "port rpc")


def test_without_a_port_nobody_asks() -> None:
    assert replica(pattern(())).readiness is None


def test_a_probe_is_asked_as_it_is_written() -> None:
    secure = {"name": "web", "port": 8443, "protocol": "https"}
    probe = {"http": {"port": "web", "path": "/up"}, "period": "7s", "timeout": "3s", "failures": 4}
    alive = {"command": ["check", "it"], "grace": "90s"}
    found = replica(pattern((HTTP, secure), readiness=probe, liveness=alive))
    ready, live = found.readiness, found.liveness
    assert ready is not None and live is not None
    assert (ready.how, ready.port, ready.tls, ready.path) == ("http", 8443, True, "/up")
    assert (ready.period, ready.timeout, ready.failures) == (7, 3, 4)
    assert (live.how, live.command, live.grace) == ("command", ("check", "it"), 90)


def test_a_port_is_asked_where_it_is_really_served() -> None:
    of = pattern()
    part = KernelPlacement(
        "main1", "n1", (), 0, (), 0, network="host", ports=(PortGrant(port=8000, on=30123, name="http"),)
    )
    was = existing(of)
    placed = replace(was, recorded=replace(was.recorded, placement=Placement(was.id, "default", (part,))))
    question = replica(of, placed).readiness
    assert question is not None and question.port == 30123


def test_replicas_of_an_older_generation_are_asked_by_their_own_probes() -> None:
    """A document with another probe asks nothing new of those that run, also where the store was lost: they
    carry what they are asked."""
    old = pattern(readiness={"http": {"port": "http", "path": "/up"}}, liveness={"command": ["check"]})
    new = pattern(readiness={"http": {"port": "http", "path": "/wrong"}}, liveness={"command": ["wrong"]})
    plain = pattern()
    assert len({old.generation, new.generation, plain.generation}) == 3
    found = replica(new, existing(old))
    assert found == replica(old, existing(old))
    assert found.readiness is not None and found.readiness.path == "/up"
    assert replica(plain, existing(old)) == found
    asked = replica(new, existing(plain))
    assert asked.liveness is None and asked.readiness is not None and asked.readiness.how == "tcp"


@pytest.mark.parametrize("text", ["", "no", "[]", "{}", '{"tcp": {"port": 1}}', "[" * 100_000])
def test_a_probe_that_cannot_be_read_is_none(text: str) -> None:
    of = pattern()
    noted = {READINESS_ANNOTATION: text, LIVENESS_ANNOTATION: text}
    metadata = of.session.metadata.model_copy(update={"annotations": noted})
    forged = replace(of, session=of.session.model_copy(update={"metadata": metadata}))
    assert replica(forged, existing(forged)) == replica(of, existing(of))


def test_nobody_writes_a_probe_as_an_annotation() -> None:
    """What a service's document says under these names is not asked."""
    of = pattern()
    metadata = of.session.metadata.model_copy(update={"annotations": {READINESS_ANNOTATION: "forged"}})
    written = of.session.model_copy(update={"metadata": metadata})
    assert pattern_of(of.service, written) == of


def test_replicas_of_an_older_generation_are_asked_at_their_own_ports() -> None:
    """A document that moves a port, or gives it another name, does not make those unready that serve it as
    they were told to."""
    old, probe = pattern(), {"tcp": {"port": "http"}}
    moved = pattern(({"name": "http", "port": 8080},), readiness=probe)
    renamed = pattern(({"name": "api", "port": 8080},), readiness={"tcp": {"port": "api"}})
    for new in (moved, renamed):
        question = replica(new, existing(old)).readiness
        assert question is not None and question.port == 8000
    assert replica(moved, existing(pattern(()))).readiness is None


def test_only_replicas_of_services_that_are_there_are_asked() -> None:
    of = pattern()
    found = existing(of)
    assert list(replicas(of, found)) == [found.id]
    assert find_replicas(desired(), actual(found)) == {}
    plain = replace(found, recorded=replace(found.recorded, document={"metadata": {"name": "x"}}))
    assert replicas(of, plain) == {}
    waits = replace(found, recorded=replace(found.recorded, kernels=()), phase="PENDING")
    assert replicas(of, waits) == {}


def test_a_session_that_has_a_document_is_nobodys_replica() -> None:
    """Nothing of it is asked in a service's name, whatever name and labels somebody gives it."""
    of = pattern()
    found = existing(of)
    metadata: Any = found.recorded.document["metadata"]
    assert metadata["labels"][SERVICE_LABEL] == "web"
    wanted = replace(desired(of), resources={found.id: of.session})
    assert find_replicas(wanted, actual(found)) == {}


def test_other_kernels_are_another_run_and_those_out_of_sight_are_not() -> None:
    of = pattern()
    run = replica(of).run
    unseen = replica(of, existing(of, started=None)).run
    assert run.goes_on_in(unseen) and unseen.with_later(run) == run and unseen.began is None
    assert run.began == STARTED.timestamp()
    later = STARTED + timedelta(seconds=1)
    for other in (existing(of, run=2), existing(of, started=later), existing(of, restarts=1)):
        assert not run.goes_on_in(replica(of, other).run)
