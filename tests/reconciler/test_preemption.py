"""A session that is pushed out: what the plan says, what applying it does, and that it comes back."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from providers.fake import Fault
from reconciler.plan.pipeline import make_study
from reconciler.plan.plan_request import PlanRequest
from reconciler.values.encoding.plan_json import dump_plan, load_plan
from reconciler.values.plan import Notice
from tests.reconciler.lab import BASE, Lab, action, session, summary

GPUS = "resources: {cpu: 2, memory: 1GiB, cuda.device: 2}"
LOW = f"{GPUS}, priority: 1, preemptible: true"
RULES = "spec: {preemption: {mode: priority, grace: 45s, minimumRunTime: 60s}}"


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    lab = Lab(tmp_path)
    lab.write({"base": BASE.replace("spec: {}", RULES, 1), "low": session("low", LOW)})
    assert lab.apply().ok
    lab.world.clock.sleep(100)
    return lab


def test_the_victim_goes_back_to_its_queue_and_the_other_waits_for_it(lab: Lab) -> None:
    lab.write({"high": session("high", GPUS)})
    plan = lab.plan()
    assert summary(plan) == {"Session/p/high": "create", "Session/p/low": "update"}
    victim, winner = action(plan, "Session/p/low"), action(plan, "Session/p/high")
    assert winner.depends_on == ("Session/p/low",) and not victim.depends_on
    assert victim.why == "pushed out: priority 1 makes room for Session/p/high with priority 10"
    assert victim.before and victim.after and victim.after.phase == "PENDING"
    assert victim.after.enqueued_at == victim.before.enqueued_at
    assert victim.notice == Notice("", 45.0)
    assert [(wait.session, wait.reasons[0].code) for wait in plan.waits] == [("Session/p/low", "preempted")]
    assert load_plan(dump_plan(plan)) == plan
    again = lab.converge()
    assert not again.changes and [wait.session for wait in again.waits] == ["Session/p/low"]
    assert [kernel.rpartition("-")[2] for kernel in lab.world.kernels] == ["g1"]
    stop, create = (
        next(at for at, call in enumerate(lab.world.calls) if call[0] == kind and name in call[1])
        for kind, name in (("remove", "low-"), ("create", "high-"))
    )
    assert stop < create


def test_whoever_starts_where_room_was_made_waits_for_it(lab: Lab) -> None:
    lab.write({"high": session("high", GPUS), "beside": session("beside", "resources: {cpu: 500m}")})
    plan = lab.plan()
    assert action(plan, "Session/p/beside").depends_on == ("Session/p/low",)
    assert not lab.converge().changes


def test_it_runs_again_when_there_is_room(lab: Lab) -> None:
    lab.write({"high": session("high", GPUS)})
    lab.converge()
    lab.drop("high")
    assert summary(lab.plan()) == {"Session/p/high": "delete", "Session/p/low": "create"}
    assert not lab.converge().changes
    assert [kernel.rpartition("-")[2] for kernel in lab.world.kernels] == ["g2"]


def test_a_checkpoint_signal_and_its_grace_come_first(lab: Lab) -> None:
    lab.write({"low": session("low", LOW + ", checkpoint: {signal: SIGUSR1, grace: 5m}")})
    lab.apply()
    kernel = lab.world.kernels[lab.kernel("low")]
    lab.write({"high": session("high", GPUS)})
    plan = lab.plan()
    assert action(plan, "Session/p/low").notice == Notice("SIGUSR1", 300.0)
    assert lab.apply(plan).ok
    assert kernel.stop_signal == "SIGUSR1"


def test_the_group_decides_and_so_do_protection_and_targets(lab: Lab) -> None:
    lab.write({"high": session("high", GPUS)})
    lab.write({"base": BASE})
    lab.apply(lab.plan(targets=("ResourceGroup/default",)))
    assert summary(lab.plan()) == {"Session/p/high": "create"}
    assert action(lab.plan(), "Session/p/high").after.phase == "PENDING"  # type: ignore[union-attr]
    lab.write({"base": BASE.replace("spec: {}", RULES, 1)})
    targeted = lab.plan(targets=("Session/p/high",))
    assert action(targeted, "Session/p/high").after.phase == "PENDING"  # type: ignore[union-attr]
    lab.write({"low": session("low", LOW, meta="annotations: {bai/protect: 'true'}")})
    lab.apply()
    assert "Session/p/low" not in summary(lab.plan())


def test_who_has_not_run_for_long_enough_stays(lab: Lab) -> None:
    lab.write({"high": session("high", GPUS)})
    lab.apply()
    lab.drop("high")
    lab.apply()  # low starts again
    lab.world.clock.sleep(10)
    lab.write({"high": session("high", GPUS)})
    plan = lab.plan()
    assert action(plan, "Session/p/high").after.phase == "PENDING"  # type: ignore[union-attr]
    assert plan.waits[0].reasons[-1].message == (
        "1 preemptible session of lower priority than 10; none has run for 60 s, the group's minimum"
    )
    lab.world.clock.sleep(60)
    assert summary(lab.plan())["Session/p/low"] == "update"


def test_the_study_shows_the_cluster_after_it(lab: Lab) -> None:
    lab.write({"high": session("high", GPUS)})
    study = make_study(PlanRequest(lab.desired(), lab.actual(), lab.world.clock.now()))
    assert [one.request.id for one in study.before.running] == ["Session/p/low"]
    assert [one.request.id for one in study.after.running] == ["Session/p/high"]
    assert [one.id for one in study.after.pending] == ["Session/p/low"]


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(
        st.lists(
            st.tuples(st.integers(0, 5), st.integers(1, 2), st.integers(0, 3), st.booleans()), max_size=3
        ),
        min_size=1,
        max_size=4,
    )
)
def test_whatever_comes_and_goes_it_settles_and_nothing_is_held_twice(
    tmp_path_factory: pytest.TempPathFactory, rounds: list[list[tuple[int, int, int, bool]]]
) -> None:
    lab = Lab(tmp_path_factory.mktemp("lab"), nodes=2)
    lab.write({"base": BASE.replace("spec: {}", "spec: {preemption: {mode: priority}}", 1)})
    for changes in rounds:
        for name, gpus, priority, preemptible in changes:
            spec = f"resources: {{cpu: 1, cuda.device: {gpus}}}, priority: {priority}"
            spec += f", preemptible: {str(preemptible).lower()}"
            lab.write({f"s{name}": session(f"s{name}", spec)})
        for _ in range(8):
            if not lab.converge().changes:
                break
        else:
            pytest.fail("it does not settle")
        held = [device for kernel in lab.world.kernels.values() for device in kernel.spec.devices]
        assert len(held) == len(set(held))
        lab.world.clock.sleep(30)


def test_nothing_is_created_when_the_victim_does_not_go(lab: Lab) -> None:
    lab.write({"high": session("high", GPUS)})
    lab.world.inject(Fault("stop", failure="error"))
    result = lab.apply()
    ends = {each.action: each.outcome for each in result.results}
    assert ends == {"Session/p/low": "failed", "Session/p/high": "skipped"}
    assert lab.apply().ok and lab.kernel("high")
    assert not lab.plan().changes
