"""What time does to sessions that nobody changes: lost nodes, drains, idle hours, timeouts, accounts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.model.plan_time import PlanTime
from planner.model.types import KernelPlacement
from providers.fake import FakeProvider, SimulatedLoad
from reconciler.observe.store_changes import store_changes
from reconciler.observe.usage_samples import MAX_SAMPLES, measure_usage, thin_out
from reconciler.plan.decide.idleness import quiet_since
from reconciler.store.usage_and_contact import add_charge
from reconciler.values.documents.idle_rules import IdleRule, watched_kernels
from reconciler.values.encoding.plan_json import dump_plan, load_plan
from reconciler.values.plan import Plan
from reconciler.values.records import Account, Balance, Charge, Sample
from reconciler.values.session_phase import derive_phase
from tests.reconciler.lab import NODE, Lab, action, session, summary

MOVES = "nodeLoss: {after: 2m, then: reschedule}"
SIZE = "resources: {cpu: 1, memory: 1GiB}"


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path, nodes=2)


def refresh(lab: Lab, seconds: float = 0) -> None:
    """Time passes, and somebody looks."""
    lab.world.clock.sleep(seconds)
    now = lab.world.clock.now()
    actual, desired = lab.actual(), lab.desired()
    used = measure_usage(lab.provider, watched_kernels(desired, actual), actual.samples)
    lease = lab.store.acquire("here", "refresh", 60, now)
    lab.store.write(lease, store_changes(actual, desired, used, now, "refresh"))
    lab.store.release(lease)


def begun(lab: Lab, **sessions: str) -> str:
    """The sessions run, all nodes were seen; gives the node of the first."""
    lab.write({name: session(name, spec) for name, spec in sessions.items()})
    refresh(lab)
    assert lab.apply().ok
    refresh(lab)
    return lab.world.kernels[lab.kernel(next(iter(sessions)))].spec.labels.node


def drifts(plan: Plan) -> str:
    return "\n".join(drift.what for drift in plan.drifts)


# Lost nodes


def test_who_waits_for_a_lost_node_stays_and_others_go_on(lab: Lab) -> None:
    home = begun(lab, a=SIZE)
    lab.world.down[home] = "no route to host"
    lab.write({"b": session("b", SIZE)})
    refresh(lab)
    refresh(lab, 3600)
    plan = lab.plan()
    assert summary(plan) == {"Session/p/b": "create"}
    assert f"no contact with {home} since" in drifts(plan) and "no route to host" in drifts(plan)
    assert plan.unreached[0].node == home and plan.unreached[0].since is not None
    assert load_plan(dump_plan(plan)) == plan
    assert lab.apply(plan).ok
    assert lab.world.kernels[lab.kernel("b")].spec.labels.node != home
    assert lab.actual().existing["Session/p/a"].phase == "RUNNING"
    del lab.world.down[home]
    refresh(lab)
    assert not lab.plan().changes and lab.store.recorded("here")["Session/p/a"].reason == ""


def test_a_session_on_a_lost_node_is_given_up_in_time_and_its_ghost_goes_first(lab: Lab) -> None:
    home = begun(lab, a=f"{SIZE}, {MOVES}")
    old = lab.kernel("a")
    lab.world.down[home] = "no answer"
    refresh(lab)
    refresh(lab, 119)
    assert not lab.plan().changes
    refresh(lab, 1)
    found = action(lab.plan(), "Session/p/a")
    assert found.verb == "replace" and found.after and found.after.generation == 2
    assert [ghost.kernel for ghost in found.after.ghosts] == [old]
    assert not lab.converge().changes
    assert "may still run" in drifts(lab.plan())
    del lab.world.down[home]
    assert summary(lab.plan()) == {"Session/p/a": "update"}
    assert not lab.converge().changes
    assert old not in lab.world.kernels and len(lab.world.kernels) == 1
    refresh(lab)
    assert lab.store.recorded("here")["Session/p/a"].ghosts == ()


def test_without_room_elsewhere_it_is_waited_for(lab: Lab) -> None:
    home = begun(
        lab, a=f"resources: {{cpu: 8, memory: 1GiB}}, {MOVES}", b="resources: {cpu: 8, memory: 1GiB}"
    )
    lab.world.down[home] = "no answer"
    refresh(lab)
    refresh(lab, 600)
    plan = lab.plan()
    assert not plan.changes and [wait.session for wait in plan.waits] == ["Session/p/a"]
    del lab.world.down[home]
    assert not lab.plan().changes and not lab.plan().waits


def test_what_a_ghost_holds_is_given_to_nobody_before_it_is_gone(lab: Lab) -> None:
    home = begun(lab, a=f"resources: {{cpu: 8, memory: 1GiB}}, {MOVES}")
    lab.world.down[home] = "no answer"
    refresh(lab)
    refresh(lab, 600)
    assert lab.apply().ok
    del lab.world.down[home]
    lab.write({"b": session("b", "resources: {cpu: 8, memory: 1GiB}")})
    plan = lab.plan()
    assert action(plan, "Session/p/b").after.placement is None  # type: ignore[union-attr]
    assert summary(lab.converge()) == {"Session/p/b": "create"}


def test_a_deleted_session_is_remembered_until_its_node_answers(lab: Lab) -> None:
    home = begun(lab, a=SIZE)
    lab.world.down[home] = "no answer"
    refresh(lab)
    lab.drop("a")
    assert summary(lab.plan()) == {"Session/p/a": "delete"}
    assert not lab.converge().changes
    assert "may still run" in lab.store.recorded("here")["Session/p/a"].reason
    lab.write({"a": session("a", SIZE)})
    waits = lab.plan().waits
    assert [wait.reasons[0].code for wait in waits] == ["not-observed"]
    assert lab.apply().ok and len(lab.world.created) == 1, "nodeLoss: wait never lets it run twice"
    del lab.world.down[home]
    assert not lab.converge().changes
    assert len(lab.world.kernels) == 1 and lab.kernel("a").endswith("-g2") and not lab.world.twins


def test_a_lost_store_starts_nothing_while_a_node_is_unknown(lab: Lab) -> None:
    home = begun(lab, a=SIZE)
    lab.lose_store()
    lab.world.down[home] = "no answer"
    refresh(lab)
    plan = lab.plan()
    assert "never reached from here" in plan.waits[0].reasons[0].message
    assert "Session/p/a" not in summary(plan)
    assert lab.apply().ok and len(lab.world.created) == 1
    del lab.world.down[home]
    assert not lab.converge().changes and len(lab.world.created) == 1
    assert lab.actual().existing["Session/p/a"].phase == "RUNNING"


def test_a_node_that_joins_and_does_not_answer_yet_holds_nobody_up(lab: Lab) -> None:
    begun(lab, a=SIZE)
    refresh(lab)
    lab.write({"b": session("b", SIZE), "late": NODE.format(name="late")})
    lab.world.down["late"] = "not racked yet"
    assert lab.plan().waits == ()
    assert lab.apply().ok and len(lab.world.created) == 2


def test_half_a_gang_out_of_reach_is_stopped_before_it_starts_elsewhere(tmp_path: Path) -> None:
    lab = Lab(tmp_path, nodes=4)
    gang = "cluster: {mode: multi-node, roles: {main: 1, sub: 1}}"
    home = begun(lab, a=f"resources: {{cpu: 8, memory: 1GiB}}, {gang}, {MOVES}")
    other = lab.kernel("a", "sub1")
    lab.world.down[home] = "no answer"
    refresh(lab)
    refresh(lab, 300)
    assert lab.apply().ok
    assert other not in lab.world.kernels
    assert {k.spec.labels.generation for k in lab.world.kernels.values() if k.spec.labels.node != home} == {2}


# Drained nodes


def test_a_drain_tells_who_can_save_its_work(lab: Lab) -> None:
    home = begun(lab, a=f"{SIZE}, movable: true, checkpoint: {{signal: SIGUSR2, grace: 3m}}", b=SIZE)
    text = (lab.folder / "nodes.yaml").read_text()
    lab.write(
        {"nodes": text.replace(f"{{name: {home}}}\nspec:", f"{{name: {home}}}\nspec:\n  state: drained")}
    )
    plan = lab.plan()
    found = action(plan, "Session/p/a")
    assert found.verb == "replace" and found.notice is not None
    assert (found.notice.signal, found.notice.grace) == ("SIGUSR2", 180)
    assert any(f"drain of {home}: blocked by Session/p/b" in warning for warning in plan.warnings)


# Time


def test_a_timeout_is_kept_where_nobody_else_keeps_it(lab: Lab) -> None:
    begun(lab, a=f"{SIZE}, type: batch, timeout: 10m")
    refresh(lab, 599)
    assert not lab.plan().changes
    lab.world.clock.sleep(1)
    plan = lab.plan()
    assert action(plan, "Session/p/a").why == "timeout: ran for 10m of 10m"
    itself = FakeProvider(lab.world, timeouts=True)
    lab.provider, before = itself, lab.provider
    assert not lab.plan().changes
    lab.provider = before
    assert not lab.converge().changes
    record = lab.store.recorded("here")["Session/p/a"]
    assert (record.phase, record.result) == ("TERMINATED", "failure")
    lab.write({"a": session("a", f"{SIZE}, type: batch, timeout: 1h")})
    assert summary(lab.plan()) == {"Session/p/a": "replace"}


def test_who_has_used_up_its_restarts_is_not_given_more(lab: Lab) -> None:
    begun(lab, a=f"{SIZE}, restart: {{policy: on-failure, max: 3}}")
    lab.world.die(lab.kernel("a"), exit_code=137, reason="signal 9")
    each = lab.actual().existing["Session/p/a"]
    assert each.phase == "RUNNING" and each.missing, "killed from outside: made again"
    worn = [replace(kernel, restarts=3) for kernel in each.kernels]
    assert derive_phase(each.recorded, worn, complete=True).phase == "ERROR"


# Idle


def idle_lab(lab: Lab, load: SimulatedLoad, spec: str, rounds: int, step: float = 60) -> str:
    """What the plan says about a session after some rounds of this load; empty when nothing."""
    begun(lab, a=f"{SIZE}, {spec}")
    lab.world.use(lab.kernel("a"), load)
    for _ in range(rounds):
        refresh(lab, step)
    plan = lab.plan()
    return action(plan, "Session/p/a").why


CPU = "idle: {after: 10m, metric: cpu-utilization, below: 5%, grace: 0s}"


@pytest.mark.parametrize(
    ("load", "spec", "rounds", "expected"),
    [
        (SimulatedLoad(cores=0.01), CPU, 12, "(cpu-utilization 1.0 % < 5 %)"),
        (SimulatedLoad(cores=0.01), CPU, 9, ""),
        (SimulatedLoad(cores=0.2), CPU, 30, ""),
        (
            SimulatedLoad(network=10),
            CPU.replace("cpu-utilization", "network"),
            12,
            "(network 10.0 B/s < 1024 B/s)",
        ),
        (SimulatedLoad(network=5000), CPU.replace("cpu-utilization", "network"), 12, ""),
        (SimulatedLoad(cores=0.01), CPU.replace("0s", "1h"), 30, ""),
        (SimulatedLoad(cores=0.0), CPU.replace("cpu-utilization", "gpu-utilization"), 30, ""),
    ],
)
def test_who_does_nothing_for_long_enough_is_stopped(
    lab: Lab, load: SimulatedLoad, spec: str, rounds: int, expected: str
) -> None:
    why = idle_lab(lab, load, spec, rounds)
    assert why.endswith(expected) and bool(why) == bool(expected)
    if expected:
        assert why.startswith("idle since ")
        assert not lab.converge().changes
        record = lab.store.recorded("here")["Session/p/a"]
        assert record.phase == "TERMINATED" and record.reason == why
        assert not lab.plan().changes, "it stays ended until its document changes"


def test_a_gpu_that_works_now_and_then_is_used(lab: Lab) -> None:
    spec = "resources: {cpu: 1, memory: 1GiB, cuda.device: 1}, idle: {after: 10m, grace: 0s}"
    begun(lab, a=spec)
    for minute in range(30):
        lab.world.use(lab.kernel("a"), SimulatedLoad(gpu=80 if minute % 8 == 0 else 0))
        refresh(lab, 60)
    assert not lab.plan().changes
    lab.world.use(lab.kernel("a"), SimulatedLoad(gpu=0))
    for _ in range(11):
        refresh(lab, 60)
    assert "gpu-utilization 0.0 % < 5 %" in action(lab.plan(), "Session/p/a").why


def test_who_waited_for_one_that_has_ended_is_not_idle_yet(lab: Lab) -> None:
    begun(lab, a=f"{SIZE}, {CPU}, cluster: {{mode: multi-node, roles: {{main: 1, sub: 1}}}}")
    busy = lab.kernel("a", "sub1")
    lab.world.use(lab.kernel("a"), SimulatedLoad())
    lab.world.use(busy, SimulatedLoad(cores=1))
    for _ in range(15):
        refresh(lab, 60)
    lab.world.die(busy, exit_code=0)
    for _ in range(9):
        refresh(lab, 60)
        assert not lab.plan().changes
    for _ in range(2):
        refresh(lab, 60)
    assert action(lab.plan(), "Session/p/a").why.startswith("idle since ")


def test_missing_data_stops_nobody(lab: Lab) -> None:
    begun(lab, a=f"{SIZE}, {CPU}")
    lab.world.use(lab.kernel("a"), SimulatedLoad())
    for _ in range(5):
        refresh(lab, 60)
    refresh(lab, 3600)
    assert not lab.plan().changes, "an hour of which nothing is known"
    for _ in range(8):
        refresh(lab, 60)
    lab.world.clock.sleep(1200)
    assert not lab.plan().changes, "what was long ago says nothing about now"


def test_a_quota_stops_the_idle_too(lab: Lab) -> None:
    spec = "{subject: {project: p}, idleTimeout: 10m}"
    lab.write({"quota": f"apiVersion: bai/v1\nkind: Quota\nmetadata: {{name: q}}\nspec: {spec}\n"})
    why = idle_lab(lab, SimulatedLoad(), "type: interactive", 20)
    assert "cpu-utilization" in why and why.endswith("quota q)")


def test_samples_of_what_is_gone_are_dropped(lab: Lab) -> None:
    begun(lab, a=f"{SIZE}, {CPU}")
    lab.world.use(lab.kernel("a"), SimulatedLoad())
    refresh(lab, 60)
    assert lab.store.samples("here")
    lab.drop("a")
    lab.converge()
    refresh(lab)
    assert lab.store.samples("here") == {}


PART = KernelPlacement("main1", "n1", (0,), 1000, (0,), 1)
STEPS = st.lists(st.tuples(st.integers(5, 400), st.integers(0, 100)), min_size=2, max_size=60)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(STEPS)
def test_thinning_never_makes_a_busy_kernel_idle(steps: list[tuple[int, int]]) -> None:
    """Samples as they come, thinned each time, are never quiet for longer than all of them are."""
    rule = IdleRule(1200.0, "gpu-utilization", 5.0, 0.0)
    every: tuple[Sample, ...] = ()
    few: tuple[Sample, ...] = ()
    at = 0.0
    for span, busy in steps:
        at += span
        sample = Sample(at, gpu=float(busy) if busy > 90 else 0.0)
        every, few = (*every, sample), thin_out((*few, sample), at)
        whole, thin = (quiet_since(rule, samples, PART, PlanTime(at)) for samples in (every, few))
        assert thin is None or (whole is not None and whole.since <= thin.since)
    assert len(few) <= MAX_SAMPLES


# Accounts


USER = "apiVersion: bai/v1\nkind: User\nmetadata: {{name: {0}}}\nspec: {{email: {0}@x.org, projects: [p]}}\n"


def test_a_heavy_user_goes_after_a_light_one(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    base = (lab.folder / "base.yaml").read_text()
    fair = "metadata: {name: default}\nspec: {queue: fair-share}"
    lab.write({"base": base.replace("metadata: {name: default}\nspec: {}", fair)})
    lab.write({"users": "---\n".join(USER.format(name) for name in ("heavy", "light"))})
    whole = "resources: {cpu: 8, memory: 1GiB, cuda.device: 2}"
    begun(lab, i=f"{whole}, owner: light@x.org, type: batch")
    lab.world.clock.sleep(600)
    lab.world.die(lab.kernel("i"), exit_code=0)
    refresh(lab)
    begun(lab, h=f"{whole}, owner: heavy")
    lab.world.clock.sleep(36_000)
    lab.drop("h")
    assert not lab.converge().changes
    balances = lab.store.accounts("here")
    assert balances["heavy"].value > 10 * balances["light"].value > 0
    lab.write({"a": session("a", f"{whole}, owner: heavy"), "x": session("x", f"{whole}, owner: light")})
    assert starts(lab.plan()) == {"Session/p/x"}
    assert starts(make_plan_without_accounts(lab)) == {"Session/p/a"}


def starts(plan: Plan) -> set[str]:
    return {each.id for each in plan.changes if each.placement_after}


def make_plan_without_accounts(lab: Lab) -> Plan:
    """The same, by a planner that remembers nothing: who asked first goes first."""
    from reconciler.plan.pipeline import make_plan
    from reconciler.plan.plan_request import PlanRequest

    return make_plan(PlanRequest(lab.desired(), replace(lab.actual(), balances={}), lab.world.clock.now()))


@given(st.floats(0.01, 1), st.floats(1, 1e6), st.floats(0, 1e6), st.floats(60, 1e6), st.floats(0, 1e6))
def test_accounts_decay_as_if_all_were_summed_now(
    share: float, held: float, gap: float, half_life: float, later: float
) -> None:
    """Charging twice and reading later equals charging for each part and decaying it by itself."""
    account = Account("u", share, half_life)
    one, two = Charge(account, 0.0, held), Charge(account, held + gap, 2 * held + gap)
    now = 2 * held + gap + later
    both = add_charge(add_charge(None, one), two).decayed(now)
    apart = add_charge(None, one).decayed(now) + add_charge(None, two).decayed(now)
    assert both == pytest.approx(apart, rel=1e-6, abs=1e-9)
    assert 0 <= Balance(both, now, half_life).decayed(now + half_life) <= both / 2 + 1e-9
