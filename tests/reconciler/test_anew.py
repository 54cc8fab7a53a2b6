"""`--replace`: a session is stopped and started again though nothing changed, and only where that can be."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.plan.pipeline import make_study
from reconciler.plan.plan_request import PlanRequest
from reconciler.values.encoding.plan_json import dump_plan, load_plan
from schemas.problems.errors.plan import PlanError
from tests.reconciler.lab import Lab, action, session, summary

ONE_GPU = "resources: {cpu: 2, memory: 1GiB, cuda.device: 1}"
A, B = "Session/p/a", "Session/p/b"


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def test_what_runs_starts_again_in_its_place(lab: Lab) -> None:
    lab.write({"a": session("a", ONE_GPU), "b": session("b", ONE_GPU)})
    lab.apply()
    quiet, plan = lab.plan(), lab.plan(anew=(A,))
    assert not quiet.changes and summary(plan) == {A: "replace"}
    found = action(plan, A)
    assert found.why == "asked for by --replace"
    assert [(c.path, c.before, c.after, c.forces) for c in found.changes] == [("generation", "1", "2", True)]
    assert found.before and found.after and found.after.placement == found.before.placement
    assert plan.digest != quiet.digest and load_plan(dump_plan(plan)).digest == plan.digest
    assert lab.apply(plan).ok
    assert sorted(kernel.rpartition("-")[2] for kernel in lab.world.kernels) == ["g1", "g2"]
    assert not lab.plan().changes


def test_a_saved_wish_is_carried_out_exactly_once(lab: Lab) -> None:
    lab.write({"a": session("a", ONE_GPU)})
    lab.apply()
    saved = load_plan(dump_plan(lab.plan(anew=(A,))))
    assert lab.apply(saved).ok
    with pytest.raises(PlanError):
        lab.apply(saved)
    assert [kernel.rpartition("-")[2] for kernel in lab.world.kernels] == ["g2"]


@pytest.mark.parametrize(("kind", "code", "phase"), [("batch", 0, "TERMINATED"), ("interactive", 3, "ERROR")])
def test_what_has_ended_starts_again(lab: Lab, kind: str, code: int, phase: str) -> None:
    lab.write({"a": session("a", f"type: {kind}")})
    lab.apply()
    lab.world.die(lab.kernel("a"), exit_code=code)
    assert lab.actual().existing[A].phase == phase
    plan = lab.plan(anew=(A,))
    assert summary(plan) == {A: "replace"} and action(plan, A).why == "asked for by --replace"
    assert not plan.warnings
    assert lab.apply(plan).ok
    assert lab.actual().existing[A].phase == "RUNNING"
    assert [kernel.rpartition("-")[2] for kernel in lab.world.kernels] == ["g2"]


def test_an_error_is_told_until_it_is_put_right(lab: Lab) -> None:
    lab.write({"a": session("a")})
    lab.apply()
    lab.world.die(lab.kernel("a"), exit_code=3)
    for plan in (lab.plan(), lab.converge()):
        assert plan.warnings == (f"{A} is in ERROR: main1 exited with 3; --replace {A} starts it again",)
    lab.apply(lab.plan(anew=(A,)))
    assert not lab.plan().warnings


def test_a_wish_and_a_change_are_one_replacement(lab: Lab) -> None:
    lab.write({"a": session("a", ONE_GPU)})
    lab.apply()
    lab.write({"a": session("a", ONE_GPU + ", env: {X: '1'}")})
    found = action(lab.plan(anew=(A,)), A)
    assert found.why == "spec changed; asked for by --replace"
    assert found.after and found.after.generation == 2


def test_a_wish_does_not_stop_what_then_fits_nowhere(lab: Lab) -> None:
    lab.write({"a": session("a", ONE_GPU)})
    lab.apply()
    lab.write({"a": session("a", "resources: {cpu: 2, memory: 1GiB, cuda.device: 5}")})
    plan = lab.plan(anew=(A,))
    assert not plan.changes
    assert "runs-on" in {reason.code for wait in plan.waits for reason in wait.reasons}


def test_memory_that_could_change_in_place_is_replaced_when_asked(lab: Lab) -> None:
    lab.write({"a": session("a", "resources: {cpu: 1, memory: 1GiB}")})
    lab.apply()
    lab.write({"a": session("a", "resources: {cpu: 1, memory: 2GiB}")})
    assert summary(lab.plan()) == {A: "update"} and summary(lab.plan(anew=(A,))) == {A: "replace"}
    lab.apply(lab.plan(anew=(A,)))
    assert [kernel.rpartition("-")[2] for kernel in lab.world.kernels] == ["g2"]


def test_what_waits_or_is_new_starts_anyway(lab: Lab) -> None:
    lab.write({"a": session("a"), "b": session("b", "resources: {cuda.device: 5}")})
    assert summary(lab.plan(anew=(A, B)))[A] == "create"
    lab.apply()
    assert summary(lab.plan(anew=(B,))) == {}


def test_patterns_mean_all_that_match(lab: Lab) -> None:
    lab.write({"a": session("a"), "b": session("b")})
    lab.apply()
    assert summary(lab.plan(anew=("Session/p/*",))) == {A: "replace", B: "replace"}


def test_a_wish_that_cannot_be_is_refused(lab: Lab) -> None:
    lab.write({"a": session("a"), "b": session("b")})
    lab.apply()
    for options in (
        {"anew": ("Session/p/nobody",)},
        {"anew": ("Node/n1",)},
        {"anew": (A,), "targets": (B,)},
        {"anew": (A,), "destroy": True},
        {"anew": (A,), "refresh_only": True},
    ):
        with pytest.raises(PlanError):
            lab.plan(**options)  # type: ignore[arg-type]


def test_nobody_is_replaced_where_not_everything_was_seen(lab: Lab) -> None:
    lab.write({"a": session("a")})
    lab.apply()
    lab.world.hidden.add(lab.kernel("a"))
    assert not lab.actual().complete
    assert not lab.plan(anew=(A,)).changes


def test_a_study_has_the_cluster_before_and_after(lab: Lab) -> None:
    lab.write({"a": session("a", ONE_GPU)})
    lab.apply()
    lab.write({"b": session("b", ONE_GPU), "c": session("c", "resources: {cuda.device: 2}")})
    study = make_study(PlanRequest(lab.desired(), lab.actual(), lab.world.clock.now()))
    assert study.plan.digest == lab.plan().digest
    assert [one.request.id for one in study.before.running] == [A]
    assert sorted(one.request.id for one in study.after.running) == [A, B]
    assert [one.id for one in study.after.pending] == ["Session/p/c"]
    assert study.request(B) is not None and study.request("Session/p/nobody") is None
