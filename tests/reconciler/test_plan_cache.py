"""A plan is made anew only where it would be another one: its inputs have changed, or a moment has come that
something in it waits for. `tests/simulation` compares each plan with one that is made anew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from reconciler.controller.loop import Loop
from reconciler.controller.loop_options import LoopOptions
from reconciler.plan import plan_cache
from reconciler.plan.pipeline import TimedPlan, make_plan
from reconciler.plan.plan_request import PlanRequest
from reconciler.values.encoding.plan_json import dump_plan
from reconciler.values.plan_options import PlanOptions
from reconciler.workspace.workspace import Workspace
from tests.reconciler.lab import Lab, session
from tests.reconciler.test_life import refresh

DAY = 86_400.0


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """When plans were really made."""
    found: list[float] = []
    make: Callable[[PlanRequest], TimedPlan] = plan_cache.make_timed_plan

    def counted(request: PlanRequest) -> TimedPlan:
        found.append(request.now)
        return make(request)

    monkeypatch.setattr(plan_cache, "make_timed_plan", counted)
    return found


def holds_until(lab: Lab, made: list[float], moment: float) -> None:
    """The plan of now is given again until the moment, and another one is made then."""
    clock, first = lab.world.clock, lab.plan()
    made.clear()
    for step in (0.0, (moment - clock.now()) / 2, moment - clock.now() - 0.5):
        clock.sleep(step if step < moment - clock.now() else moment - clock.now() - 0.5)
        again = lab.plan()
        assert again.actions is first.actions and again.waits is first.waits
        assert again.made_at == clock.now() and again.digest == first.digest
        assert dump_plan(again) == dump_plan(make_plan(lab.request()))
    assert made == []
    clock.sleep(moment - clock.now())
    assert lab.plan().digest != first.digest
    assert made == [clock.now()]


def at(lab: Lab, seconds: float) -> str:
    return datetime.fromtimestamp(lab.world.clock.now() + seconds, UTC).isoformat()


def test_nothing_waits_for_a_time(tmp_path: Path, made: list[float]) -> None:
    lab = Lab(tmp_path)
    lab.write({"a": session("a"), "b": session("b", "resources: {cpu: 4, cuda.device: 2}")})
    lab.write({"c": session("c", "resources: {cpu: 2, cuda.device: 1}")})
    lab.converge()
    lab.apply()
    lab.plan()
    made.clear()
    lab.world.clock.sleep(0.3 * DAY)
    assert not lab.plan().changes and made == []


@pytest.mark.parametrize("after", [60.0, 3600.0])
def test_until_a_session_is_to_start(tmp_path: Path, made: list[float], after: float) -> None:
    lab = Lab(tmp_path)
    lab.write({"a": session("a", f"startsAt: '{at(lab, after)}'")})
    lab.apply()
    holds_until(lab, made, lab.world.clock.now() + after)


def test_until_a_session_has_had_its_time(tmp_path: Path, made: list[float]) -> None:
    lab = Lab(tmp_path)
    lab.write({"a": session("a", "timeout: 10m")})
    lab.apply()
    holds_until(lab, made, lab.world.clock.now() + 600.0)


def test_until_a_session_has_waited_too_long(tmp_path: Path, made: list[float]) -> None:
    lab = Lab(tmp_path)
    base = (lab.folder / "base.yaml").read_text()
    lab.write({"base": base.replace("spec: {}\n---", "spec: {queueOptions: {pendingTimeout: 10m}}\n---")})
    assert "pendingTimeout" in (lab.folder / "base.yaml").read_text()
    lab.write({"a": session("a"), "b": session("b", "resources: {cuda.device: 2}")})
    lab.apply()
    lab.write({"c": session("c", "resources: {cuda.device: 1}")})
    lab.apply()
    begun = lab.world.clock.now()
    lab.plan()
    made.clear()
    lab.world.clock.sleep(599.5)
    assert not lab.plan().changes and made == []
    lab.world.clock.sleep(1.0)
    assert [one.id for one in lab.plan().changes] == ["Session/p/c"] and made == [begun + 600.5]


def test_until_a_lost_node_is_given_up(tmp_path: Path, made: list[float]) -> None:
    lab = Lab(tmp_path, nodes=2)
    lab.write({"a": session("a", "nodeLoss: {after: 5m, then: reschedule}")})
    lab.apply()
    refresh(lab)
    (kernel,) = lab.world.kernels.values()
    lab.world.down[kernel.spec.labels.node] = "no answer"
    refresh(lab)
    began = lab.world.clock.now()
    lab.plan()
    made.clear()
    lab.world.clock.sleep(299.0)
    assert not lab.plan().changes
    lab.world.clock.sleep(1.0)
    assert [one.id for one in lab.plan().changes] == ["Session/p/a"]
    assert made == [began + 300.0]


def test_another_day(tmp_path: Path, made: list[float]) -> None:
    """Policies may be put aside until a day."""
    lab = Lab(tmp_path)
    lab.write({"a": session("a")})
    lab.converge()
    lab.plan()
    made.clear()
    lab.world.clock.sleep(DAY)
    lab.plan()
    assert len(made) == 1


def test_a_clock_that_goes_back(tmp_path: Path, made: list[float]) -> None:
    lab = Lab(tmp_path)
    lab.write({"a": session("a")})
    lab.converge()
    request = lab.request()
    lab.plans.plan(request)
    made.clear()
    lab.plans.plan(PlanRequest(request.desired, request.actual, request.now - 5.0))
    assert len(made) == 1


def test_whatever_else_is_asked(tmp_path: Path, made: list[float]) -> None:
    lab = Lab(tmp_path)
    lab.write({"a": session("a"), "b": session("b")})
    lab.converge()
    lab.plan()
    made.clear()
    asked = [PlanOptions(targets=("Session/p/a",)), PlanOptions(destroy=True), PlanOptions(replace=("*",))]
    asked += [PlanOptions(without=frozenset({"Session/p/b"})), PlanOptions(refresh_only=True)]
    for options in asked:
        request = lab.request(options)
        assert dump_plan(lab.plans.plan(request)) == dump_plan(make_plan(request))
    assert len(made) == len(asked)


def test_whatever_changes_in_the_world(tmp_path: Path, made: list[float]) -> None:
    lab = Lab(tmp_path, nodes=2)
    lab.write({"a": session("a"), "b": session("b")})
    lab.converge()
    lab.plan()
    kernel = lab.kernel("a")
    changes: list[Callable[[], object]] = [
        lambda: lab.world.die(kernel),
        lambda: lab.world.vanish(kernel),
        lambda: lab.world.down.update({"n2": "no answer"}),
        lab.world.down.clear,
        lambda: lab.write({"c": session("c")}),
        lambda: lab.drop("c"),
        lambda: lab.write({"b": session("b", "priority: 3")}),
    ]
    for change in changes:
        made.clear()
        change()
        plan = lab.plan()
        assert len(made) == 1, change
        assert dump_plan(plan) == dump_plan(make_plan(lab.request()))


def test_the_loop_plans_once_while_nothing_happens(tmp_path: Path, made: list[float]) -> None:
    lab = Lab(tmp_path)
    lab.write({"a": session("a"), "b": session("b", "resources: {cuda.device: 9}")})
    lab.world.clock.sleep(1_780_000_000.0)
    workspace = Workspace.open(lab.folder, state=lab.state, clock=lab.world.clock)
    workspace.provider = lab.provider
    lines: list[str] = []
    loop = Loop(workspace, LoopOptions("tester", 30.0), log=lines.append)
    for _ in range(3):
        lab.world.clock.sleep(30.0)
        loop.once()
    assert made
    made.clear()
    for _ in range(5):
        lab.world.clock.sleep(30.0)
        loop.once()
    assert made == []
    lab.write({"b": session("b")})
    lab.world.clock.sleep(30.0)
    loop.once()
    assert len(made) == 1 and len(lab.world.kernels) == 2
    workspace.close()


def test_the_loop_plans_no_more_while_something_stays_refused(tmp_path: Path, made: list[float]) -> None:
    """A pass asks twice then: with what is refused, and without."""
    lab = Lab(tmp_path)
    lab.world.clock.sleep(1_780_000_000.0)
    workspace = Workspace.open(lab.folder, state=lab.state, clock=lab.world.clock)
    workspace.provider = lab.provider
    lines: list[str] = []
    loop = Loop(workspace, LoopOptions("tester", 30.0), log=lines.append)

    def run(passes: int) -> int:
        """How many plans were made."""
        made.clear()
        for _ in range(passes):
            lab.world.clock.sleep(30.0)
            loop.once()
        return len(made)

    lab.write({"a": session("a", meta="annotations: {bai/protect: 'true'}"), "b": session("b")})
    run(3)
    lab.drop("a")
    run(3)
    assert run(5) == 0
    assert sum("refused: Session/p/a would be deleted, and is protected" in line for line in lines) == 1
    lab.drop("b")
    assert run(1) == 2 and [each.spec.labels.resource for each in lab.world.kernels.values()] == [
        "Session/p/a"
    ]
    loop.workspace.close()


def test_few_plans_are_kept(tmp_path: Path, made: list[float]) -> None:
    """Of one observation those asked for last; of the one before those that were not asked for since."""
    lab = Lab(tmp_path)
    lab.write({name: session(name) for name in "abcdef"})
    lab.converge()
    first, second = lab.request(), lab.request()
    assert first.actual is not second.actual
    options = [PlanOptions(without=frozenset({f"Session/p/{name}"})) for name in "abcdef"]

    def ask(request: PlanRequest, numbers: str) -> int:
        made.clear()
        for number in numbers:
            lab.plans.plan(replace(request, options=options[int(number)]))
        return len(made)

    assert ask(first, "012345") == 6
    assert ask(first, "5432") == 0
    assert ask(first, "0") == 1
    assert ask(second, "0") == 0
    third = lab.request()
    assert ask(third, "0") == 0 and ask(third, "1") == 1
