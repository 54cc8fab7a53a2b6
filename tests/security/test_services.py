"""Who may commit to one project wants more of services than is theirs: to keep what is stopped, to fill a
cluster or a store, to have somebody else asked in a probe's name; a replica wants to be kept, or to get its
service's requests for itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.values.services.pattern import (
    DRAIN_ANNOTATION,
    drain_of,
    pattern_of,
    replica_notes,
    replica_session,
)
from reconciler.values.services.readiness import Readiness
from reconciler.values.services.state import RolloutOrder
from schemas.loading.loader import load_directory
from schemas.problems.errors.repository import InvalidRepository
from schemas.values.canonical import canonical_document
from schemas.values.envelope import PROTECT
from tests.reconciler.services.lab import ServiceLab
from tests.reconciler.services.lab import service as service_document
from tests.reconciler.services.world import ID, ServiceWorld, pattern_session, service
from tests.schemas.edits import SERVICE, START, make

HOUR = 3600.0


def refused(folder: Path, more: str) -> list[str]:
    for edit in START:
        make(folder, edit)
    template = "command: [a], ports: [{name: api, port: 80}]"
    text = SERVICE.format(name="mine", replicas=1, template=template, more=f", {more}")
    (folder / "attack.yaml").write_text(text)
    with pytest.raises(InvalidRepository) as raised:
        load_directory(folder)
    return [*map(str, raised.value.problems)]


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("30", 30.0), ("999999999999", HOUR), ("9" * 5000, HOUR), ("-1", 0.0), ("1e9", 0.0), ("inf", 0.0),
        ("nan", 0.0), ("30s", 0.0), ("", 0.0), (30, 0.0), (["30"], 0.0), (None, 0.0),
    ],
)  # fmt: skip
def test_no_annotation_drains_for_longer_than_an_hour(said: object, seconds: float) -> None:
    assert drain_of({"metadata": {"annotations": {DRAIN_ANNOTATION: said}}}) == seconds
    assert drain_of({"metadata": said}) == 0.0


def test_what_a_service_says_of_draining_is_said_in_its_spec() -> None:
    """An annotation of its metadata is another word for it only where there is none of bai's."""
    wanted = service(drain="5s")
    metadata = wanted.metadata.model_copy(update={"annotations": {DRAIN_ANNOTATION: "3600", PROTECT: "true"}})
    wanted = wanted.model_copy(update={"metadata": metadata})
    session = pattern_session(wanted).model_copy(update={"metadata": metadata})
    pattern = pattern_of(wanted, session)
    replica = replica_session(pattern.session, pattern.generation, 1, replica_notes(wanted))
    assert drain_of(canonical_document(replica)) == 5.0
    assert PROTECT not in replica.metadata.annotations, "else no replica could be replaced"


@pytest.mark.parametrize(
    ("more", "where"),
    [
        ("history: 101", "spec.history"),
        ("drain: 3601s", "spec.drain"),
        ("readiness: {http: {port: api, host: 10.0.0.1}}", "spec.readiness.http.host"),
        ("readiness: {http: {port: api, url: 'http://10.0.0.1/'}}", "spec.readiness.http.url"),
        ("readiness: {tcp: {port: api, host: 10.0.0.1}}", "spec.readiness.tcp.host"),
        ("readiness: {tcp: {port: 22}}", "spec.readiness.tcp.port"),
        ("readiness: {tcp: {port: other}}", "spec.readiness.tcp.port"),
        ("readiness: {tcp: {port: api}, period: 0s}", "spec.readiness.period"),
        ("liveness: {tcp: {port: api}, timeout: 2h}", "spec.liveness.timeout"),
        ("autoscaling: {max: 1001, inFlight: 1}", "spec.autoscaling.max"),
    ],
)
def test_no_probe_asks_elsewhere_and_no_number_is_too_large(tmp_path: Path, more: str, where: str) -> None:
    """A probe names a port of the replica and nothing else that could be asked."""
    found = refused(tmp_path, more)
    assert any(f"({where})" in each for each in found), found


def test_replicas_hold_no_more_than_their_projects_quota(tmp_path: Path) -> None:
    lab = ServiceLab(tmp_path, nodes=3)
    quota = (
        "apiVersion: bai/v1\nkind: Quota\nmetadata: {name: few}\n"
        "spec: {subject: {project: p}, total: {cpu: 2}}\n"
    )
    lab.write({"quota": quota, "web": service_document("replicas: 200, update: {surge: 200}")})
    for _ in range(4):
        plan = lab.turn()
    assert len([each for each in lab.replicas().values() if each]) == 2
    assert "quota" in plan.services[0].why


def test_a_store_remembers_no_more_than_so_many_generations() -> None:
    """However often the document changes before any replica of it gets ready."""
    world = ServiceWorld(service(replicas=2, history=3))
    world.settle()
    for number in range(40):
        world.wanted = service(f"program-{number}", replicas=2, history=3)
        world.step()
        world.now += 5.0
    # Those that have replicas, the last complete one and the document's are kept beside.
    assert len(world.state.generations) <= 3 + 3
    assert len(world.existing) <= 3, "and no more replicas than `surge` lets"
    assert set(world.state.failed) <= {each.name for each in world.state.generations}


def test_an_order_brings_back_nothing_that_was_never_followed() -> None:
    world = ServiceWorld(service(replicas=2))
    latest = world.settle().latest
    before = dict(world.existing)
    world.order = RolloutOrder(ID, "deadbeef", latest, "mallory", world.now)
    status = world.settle()
    assert (status.target, status.why) == (latest, "") and world.existing.keys() == before.keys()


def test_a_replica_that_turns_back_and_forth_holds_up_no_update_for_ever() -> None:
    """It says that it is ready, and then that it is not, so that its generation never counts as complete and
    never as late: what it says makes it lose its place to the next generation all the same."""
    world = ServiceWorld(service(replicas=2))
    old = world.settle().latest
    world.wanted = service("two", replicas=2)
    hostile = world.names(old)[0]
    for at in range(40):
        status = world.step()
        for name in world.existing:
            if name != hostile:
                world.ready(name)
        if hostile in world.existing:
            world.readiness[hostile] = Readiness(at % 2 == 0, world.now, "not now")
        world.now += 5.0
    assert hostile not in world.existing and status.phase == "complete"


def test_a_replicas_words_choose_no_part_of_requests() -> None:
    """How much a replica gets follows from its generation's weight and from how many are ready."""
    world = ServiceWorld(service(replicas=2))
    status = world.settle()
    loud = status.replicas[0].session
    why = "weight: 1000; ready: 100 of 1"
    world.readiness[loud] = replace(world.readiness[loud], why=why)
    assert {each.weight for each in world.step().replicas} == {1.0}
