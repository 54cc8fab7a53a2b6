"""Places that are held for replicas to come, in plans and applies against the fake provider."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.plan.pipeline import make_study
from reconciler.values.encoding.plan_json import dump_plan, load_plan
from reconciler.values.plan import Plan
from reconciler.values.services.readiness import Readiness
from reconciler.values.services.state import state_from_json, state_to_json
from tests.reconciler.lab import action, session, summary
from tests.reconciler.services.test_life import ID, ServiceLab, service

HOLDS = "headroom: {replicas: 1}"
JOB = "type: batch, preemptible: true, priority: 90, resources: {cpu: 1, memory: 1GiB, cuda.device: 2}"


@pytest.fixture
def lab(tmp_path: Path) -> ServiceLab:
    """Two nodes of two GPUs; one replica runs, and a place is held for another."""
    made = ServiceLab(tmp_path, nodes=2)
    made.write({"web": service(spec=f"replicas: 1\n  {HOLDS}")})
    made.settle()
    return made


def write_jobs(lab: ServiceLab, job: str = JOB) -> None:
    """Two, for one of which there is room where the place is held; all else is full."""
    full = session("full", "priority: 95, resources: {cpu: 1, memory: 1GiB, cuda.device: 1}")
    lab.write({"jobs": "---".join([full, *(session(f"j{at}", job) for at in range(2))])})


def scale(lab: ServiceLab, replicas: int, headroom: int = 1, command: str = "one") -> None:
    lab.write({"web": service(command, f"replicas: {replicas}\n  headroom: {{replicas: {headroom}}}")})


def held(plan: Plan) -> list[str]:
    return [each.placement.kernels[0].node for each in plan.services[0].held]


def test_a_place_is_in_the_plan_and_is_remembered(lab: ServiceLab) -> None:
    plan = lab.plan()
    assert not plan.changes
    status = lab.status(plan)
    [place] = status.held
    assert (status.headroom, status.unheld, place.lent) == (1, "", ())
    kernel = place.placement.kernels[0]
    assert kernel.cpus and kernel.devices and kernel.memory
    remembered = lab.store.recorded("here")[ID].service
    assert [each.placement for each in remembered.held] == [place.placement]
    assert remembered.last_held == 1
    text = json.dumps(state_to_json(remembered))
    assert state_from_json(json.loads(text)) == remembered
    loaded = load_plan(dump_plan(plan))
    assert loaded.digest == plan.digest and loaded.services[0].held == status.held


def test_what_cannot_be_held_is_said_and_stops_nothing(lab: ServiceLab) -> None:
    scale(lab, 1, 9)
    plan = lab.settle()
    status = lab.status(plan)
    assert status.phase == "complete" and 0 < len(status.held) < 9
    assert status.unheld.startswith("needs 1 GPU")
    last = lab.store.recorded("here")[ID].service.last_held
    assert not lab.settle().changes and lab.store.recorded("here")[ID].service.last_held == last


def test_a_batch_session_is_lent_it_gives_way_and_comes_back(lab: ServiceLab) -> None:
    write_jobs(lab)
    plan = lab.settle()
    [place] = lab.status(plan).held
    [lent] = place.lent
    assert plan.changes == () and len(lab.status(plan).held) == 1
    scale(lab, 2)
    plan = lab.plan()
    assert action(plan, lent).why == f"pushed out: {new_replica(plan)} takes the place that it was lent"
    plan = lab.settle()
    assert lab.status(plan).count("ready") == 2
    assert lab.store.recorded("here")[lent].phase == "PENDING"
    scale(lab, 1)
    plan = lab.settle()
    assert lab.store.recorded("here")[lent].phase == "RUNNING"
    assert [each.lent for each in lab.status(plan).held] == [(lent,)]


def new_replica(plan: Plan) -> str:
    [found] = [each.session for each in plan.services[0].replicas if each.phase == "new"]
    return found


def test_who_was_lent_it_cannot_keep_it_by_another_document(lab: ServiceLab) -> None:
    """Attack: a session that is `preemptible` until it has the place."""
    write_jobs(lab)
    [lent] = lab.status(lab.settle()).held[0].lent
    write_jobs(lab, JOB.replace("true", "false"))
    lab.settle()
    scale(lab, 2)
    assert lab.status(lab.settle()).count("ready") == 2
    assert lab.store.recorded("here")[lent].phase == "PENDING"


def test_a_protected_session_is_lent_nothing(lab: ServiceLab) -> None:
    """It would not give way."""
    protect = "annotations: {bai/protect: 'true'}"
    lab.write({"jobs": "---".join(session(f"j{at}", JOB, meta=protect) for at in range(2))})
    status = lab.status(lab.settle())
    assert len(status.held) == 1 and not status.held[0].lent


def test_a_session_that_waits_is_told(lab: ServiceLab) -> None:
    firm = JOB.replace("true", "false")
    lab.write({"jobs": "---".join(session(f"j{at}", firm) for at in range(2))})
    plan = lab.settle()
    waits = [reason.message for wait in plan.waits for reason in wait.reasons if reason.code == "headroom"]
    assert set(waits) == {f"held for {ID}: 1 GPU, 1 core, 1 GiB on {held(plan)[0]}"}


def test_a_targeted_plan_holds_on_and_holds_nothing_new(lab: ServiceLab) -> None:
    before = lab.store.recorded("here")[ID].service.held
    scale(lab, 1, 2)
    lab.write({"job": session("x", "resources: {cpu: 1, memory: 1GiB}")})
    plan = lab.plan(targets=("Session/p/x",))
    assert summary(plan) == {"Session/p/x": "create"}
    lab.apply(plan)
    assert lab.store.recorded("here")[ID].service.held == before


def test_the_service_takes_its_places_with_it(lab: ServiceLab) -> None:
    lab.drop("web")
    lab.settle()
    study = make_study(lab.request())
    assert study.after.held == () and study.plan.services == ()


def test_an_update_surges_onto_the_place(lab: ServiceLab) -> None:
    """Where nothing else is free."""
    lab.write(
        {
            "full": "---".join(
                session(f"x{at}", "resources: {cpu: 1, memory: 1GiB, cuda.device: 1}") for at in range(2)
            )
        }
    )
    plan = lab.settle()
    assert len(lab.status(plan).held) == 1 and not plan.waits
    scale(lab, 1, 1, "two")
    plan = lab.plan()
    assert new_replica(plan) and not plan.waits
    plan = lab.settle()
    status = lab.status(plan)
    assert status.phase == "complete" and status.count("ready") == 1 and len(status.held) == 1


def test_a_replica_that_is_started_again_leaves_the_place_alone(lab: ServiceLab) -> None:
    """And who was lent it."""
    write_jobs(lab)
    before = lab.status(lab.settle())
    assert before.held[0].lent
    [name] = [each.session for each in before.replicas]
    lab.answers[name] = Readiness(False, lab.world.clock.now(), "hangs", dead="it hangs")
    plan = lab.plan()
    assert summary(plan)[name] == "replace" and lab.status(plan).held == before.held


def test_what_a_forgotten_store_held_is_held_again(lab: ServiceLab) -> None:
    lab.lose_store()
    plan = lab.settle()
    assert len(lab.status(plan).held) == 1


def test_nothing_is_asked_for_where_no_service_has_headroom(lab: ServiceLab) -> None:
    scale(lab, 1, 0)
    lab.settle()
    snapshot = make_study(lab.request()).placed.snapshot
    assert snapshot is not None and snapshot.held == () and snapshot.pending == ()
    assert lab.store.recorded("here")[ID].service.held == ()
    assert replace(snapshot, held=()) == snapshot
