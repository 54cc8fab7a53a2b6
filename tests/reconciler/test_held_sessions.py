"""A session that is held: it waits, takes nothing from anybody, and comes in when it is released."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.model.types import Wait
from reconciler.values.plan import Plan
from tests.reconciler.lab import BASE, Lab, session, summary

GPUS = "resources: {cpu: 2, memory: 1GiB, cuda.device: 2}"
QUOTA = """
apiVersion: bai/v1
kind: Quota
metadata: {name: few}
spec: {subject: {project: p}, total: {cuda.device: 2}, pendingSessions: 1}
"""


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    lab = Lab(tmp_path)
    lab.write({"base": BASE})
    return lab


def waits(plan: Plan) -> dict[str, Wait]:
    return {wait.session: wait for wait in plan.waits}


def starting(plan: Plan) -> set[str]:
    return {each.id for each in plan.changes if each.placement_after is not None}


def test_it_waits_without_a_place_and_nobody_waits_for_it(lab: Lab) -> None:
    """Strict order: whoever is first in the queue is not passed."""
    lab.write({"base": BASE.replace("spec: {}", "spec: {queueOptions: {maxSkips: 0}}", 1)})
    lab.write({"first": session("first", f"{GPUS}, priority: 900, hold: true")})
    lab.converge()
    lab.write({"second": session("second", GPUS), "third": session("third", GPUS)})
    plan = lab.plan()
    assert starting(plan) == {"Session/p/second"}
    found = waits(plan)
    assert (found["Session/p/first"].position, found["Session/p/third"].position) == (0, 1)
    [reason] = found["Session/p/first"].reasons
    assert reason.code == "held" and "bai release" in reason.message
    assert {each.code for each in found["Session/p/third"].reasons} == {"no-capacity"}


def test_it_counts_for_no_quota(lab: Lab) -> None:
    lab.write({"quota": QUOTA, "held": session("held", f"{GPUS}, hold: true")})
    lab.converge()
    lab.write({"other": session("other", GPUS), "small": session("small", "resources: {cuda.device: 1}")})
    plan = lab.plan()
    assert starting(plan) == {"Session/p/other"}
    assert [use.after["cuda.device"] for use in plan.quotas] == [2]
    [reason] = waits(plan)["Session/p/small"].reasons
    assert reason.code == "quota" and "GPU" in reason.message


def test_it_comes_in_when_it_is_released_and_its_time_counts_from_then(lab: Lab) -> None:
    lab.write({"base": BASE.replace("spec: {}", "spec: {queueOptions: {pendingTimeout: 60s}}", 1)})
    lab.write({"full": session("full", GPUS), "held": session("held", f"{GPUS}, hold: true")})
    lab.converge()
    lab.world.clock.sleep(100)
    plan = lab.converge()
    assert not plan.changes and list(waits(plan)) == ["Session/p/held"]
    lab.write({"held": session("held", GPUS)})
    lab.converge()
    record = lab.store.recorded("here")["Session/p/held"]
    assert (record.phase, record.enqueued_at) == ("PENDING", lab.world.clock.now())
    assert waits(lab.converge())["Session/p/held"].position == 1
    lab.world.clock.sleep(100)
    lab.converge()
    assert lab.store.recorded("here")["Session/p/held"].phase == "CANCELLED"


def test_what_runs_goes_on_and_is_not_started_anew(lab: Lab) -> None:
    lab.write({"one": session("one", GPUS)})
    lab.converge()
    kernels = list(lab.world.kernels)
    lab.write({"one": session("one", f"{GPUS}, hold: true")})
    plan = lab.converge()
    assert list(lab.world.kernels) == kernels and not plan.waits
    assert lab.store.recorded("here")["Session/p/one"].document["spec"]["hold"] is True  # type: ignore[index]
    lab.write({"one": session("one", "resources: {cpu: 2, memory: 1GiB, cuda.device: 1}, hold: true")})
    plan = lab.converge()
    assert list(lab.world.kernels) == kernels
    assert [each.code for each in waits(plan)["Session/p/one"].reasons] == ["held", "runs-on"]
    lab.write({"one": session("one", "resources: {cpu: 2, memory: 1GiB, cuda.device: 1}")})
    assert summary(lab.plan())["Session/p/one"] == "replace"


def test_who_needs_it_is_not_started_without_it(lab: Lab) -> None:
    lab.write({
        "server": session("server", "resources: {cpu: 1}, hold: true"),
        "client": session("client", "resources: {cpu: 1}, dependsOn: [Session/p/server]"),
    })  # fmt: skip
    plan = lab.plan()
    assert [each.code for each in waits(plan)["Session/p/client"].reasons] == ["dependency"]
    assert not starting(plan)
    lab.write({"server": session("server", "resources: {cpu: 1}")})
    assert starting(lab.plan()) == {"Session/p/server", "Session/p/client"}


def test_it_is_not_started_again_when_it_was_pushed_out(lab: Lab) -> None:
    rules = "spec: {preemption: {mode: priority, minimumRunTime: 0s}}"
    lab.write({"base": BASE.replace("spec: {}", rules, 1)})
    low = f"{GPUS}, priority: 1, preemptible: true"
    lab.write({"low": session("low", low)})
    lab.converge()
    lab.write({"low": session("low", f"{low}, hold: true")})
    lab.converge()
    lab.write({"high": session("high", GPUS)})
    lab.converge()
    lab.drop("high")
    plan = lab.converge()
    assert [each.code for each in waits(plan)["Session/p/low"].reasons] == ["held"]
    assert not lab.world.kernels
