"""The engine against the fake provider, with hand-made steps: what is written, in which order, what stays."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from planner.model.types import DeviceGrant, KernelPlacement, Placement
from providers.base import Fence, KernelSpec, Labels, Observed
from providers.fake import FakeProvider, Fault, World
from reconciler.apply import action_graph
from reconciler.apply.apply import apply
from reconciler.apply.effect_runner import EndedEffect
from reconciler.apply.steps import Step
from reconciler.apply.targets import ApplyTargets
from reconciler.store.store import Store
from reconciler.values.changes.cause import NEW
from reconciler.values.changes.change import Change
from reconciler.values.plan import Action, Plan
from reconciler.values.records import JournalEntry, Phase, PutRecord, Recorded
from reconciler.values.results import ApplyEvent, ApplyResult
from reconciler.values.sides import SessionSide
from reconciler.values.state import Actual
from schemas.problems.errors.plan import GuardRefused, IncompleteObservation, PlanError, StalePlan
from schemas.problems.errors.store import LeaseHeld, LeaseLost, StoreUnavailable
from tests.lab.stores import environment, reader
from tests.reconciler.lab import Lab, session

CLUSTER = "here"
NOW = 1_000_000.0


def kernel_id(session: str, number: int, generation: int = 1) -> str:
    return f"{session}-main{number}-0badcafe-g{generation}"


def placement(session: str, cpus: tuple[int, ...]) -> Placement:
    kernels = tuple(
        KernelPlacement(f"main{n}", "n1", (cpu,), 1000, (0,), 1 << 30, (DeviceGrant(f"GPU-{cpu}", "cuda"),))
        for n, cpu in enumerate(cpus, 1)
    )
    return Placement(f"Session/p/{session}", "default", kernels)


def side(session: str, cpus: tuple[int, ...], generation: int = 1) -> SessionSide:
    ids = tuple(kernel_id(session, n, generation) for n in range(1, len(cpus) + 1))
    return SessionSide(
        generation, f"d{generation}", phase="RUNNING", placement=placement(session, cpus), kernels=ids
    )


def action(session: str, before: SessionSide | None, after: SessionSide | None, **fields: object) -> Action:
    changes = (Change("spec", "a", "b", forces=True),) if before and after else ()
    return Action(f"Session/p/{session}", CLUSTER, before, after, changes=changes, cause=NEW, **fields)  # type: ignore[arg-type]


def recorded(session: str, at: SessionSide, phase: Phase, **fields: object) -> Recorded:
    return Recorded(
        f"Session/p/{session}", CLUSTER, at.generation, at.digest, phase=phase, placement=at.placement,
        kernels=at.kernels, **fields,  # type: ignore[arg-type]
    )  # fmt: skip


def spec(session: str, kernel: str, at: SessionSide) -> KernelSpec:
    labels = Labels(
        "repo", CLUSTER, f"Session/p/{session}", at.generation, at.digest, kernel.split("-")[1], "n1"
    )
    return KernelSpec(kernel, labels, ("true",), {})


def steps_of(each: Action, plan: Plan) -> tuple[Step, ...]:
    """As `steps.py` makes them, without its documents."""
    name, found = each.id.rpartition("/")[2], []
    if each.before:
        found.append(Step("record", each.id, record=recorded(name, each.before, "TERMINATING")))
        found += [
            Step(kind, each.id, kernel) for kind in ("stop", "remove") for kernel in each.before.kernels
        ]
    if each.after:
        found.append(Step("record", each.id, record=recorded(name, each.after, "CREATING")))
        secrets = {"TOKEN": "env/BAI_TEST_TOKEN"} if name == "secretive" else {}
        found += [Step("create", each.id, k, spec(name, k, each.after), secrets) for k in each.after.kernels]
        found.append(Step("record", each.id, record=recorded(name, each.after, "RUNNING")))
    else:
        found.append(Step("forget", each.id))
    return tuple(found)


class Bench:
    """A store, a world and an engine to try."""

    def __init__(self, path: Path) -> None:
        self.world = World()
        self.provider = FakeProvider(self.world)
        self.store = Store.open(path)
        self.events: list[ApplyEvent] = []

    def plan(self, *actions: Action, **fields: object) -> Plan:
        return Plan("repo", CLUSTER, "c0ffee", "", "basis", **{"complete": True, **fields}, actions=actions)  # type: ignore[arg-type]

    def apply(
        self, *actions: Action, on_event: Callable[[ApplyEvent], None] | None = None, **fields: object
    ) -> ApplyResult:
        return apply(
            self.plan(*actions), self.targets(), holder="me",
            on_event=on_event or self.events.append, **fields,  # type: ignore[arg-type]
        )  # fmt: skip

    def targets(self) -> ApplyTargets:
        secrets = reader(environment("BAI_TEST_TOKEN"))
        return ApplyTargets(self.store, self.provider, self.world.clock, secrets=secrets)

    def outcomes(self, *actions: Action, **fields: object) -> dict[str, str]:
        result = self.apply(*actions, **fields)  # type: ignore[arg-type]
        return {each.action.rpartition("/")[2]: each.outcome for each in result.results}

    def phase(self, session: str) -> str:
        return self.store.recorded(CLUSTER)[f"Session/p/{session}"].phase

    def transitions(self, session: str) -> list[str]:
        events = self.store.events(CLUSTER, resource=f"Session/p/{session}")
        return [event.after for event in events]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("template") / "store.db"
    Store.open(path).close()
    return path


@pytest.fixture
def bench(tmp_path: Path, template: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    shutil.copyfile(template, tmp_path / "store.db")
    monkeypatch.setattr(action_graph, "action_steps", steps_of)
    monkeypatch.setattr("reconciler.apply.apply.observe", lambda *_, **__: Actual("repo", CLUSTER))
    monkeypatch.setattr("reconciler.apply.apply.state_fingerprint", lambda seen, relied: "basis")
    made = Bench(tmp_path / "store.db")
    yield made
    made.store.close()


def new(session: str, *cpus: int, **fields: object) -> Action:
    return action(session, None, side(session, cpus or (0,)), **fields)


def test_a_session_goes_through_its_phases_and_runs(bench: Bench) -> None:
    result = bench.apply(new("a", 0, 1))
    assert result.ok and result.count("done") == 1 and not result.interrupted
    assert set(bench.world.kernels) == {kernel_id("a", 1), kernel_id("a", 2)}
    assert bench.transitions("a") == ["PENDING", "SCHEDULED", "PREPARING", "CREATING", "RUNNING"]
    record = bench.store.recorded(CLUSTER)["Session/p/a"]
    assert (record.phase, record.started_at, record.finished_at) == ("RUNNING", NOW, None)
    assert [(each.kind, each.state) for each in bench.store.journal(CLUSTER)] == [
        ("create", "intent"), ("create", "intent"), ("create", "done"), ("create", "done"),
    ]  # fmt: skip
    assert bench.store.open_intents(CLUSTER) == () and bench.store.lease(CLUSTER) is None
    assert [(event.kind, event.state) for event in bench.events if event.kind != "step"] == [
        ("begin", "started"), ("action", "started"), ("action", "done"), ("end", "done"),
    ]  # fmt: skip


def test_a_session_runs_only_when_its_engine_has_started_it(bench: Bench) -> None:
    bench.world.slow_create = 5.0
    result = bench.apply(new("a", 0, 1))
    assert result.ok and result.count("done") == 1
    assert bench.transitions("a") == ["PENDING", "SCHEDULED", "PREPARING", "CREATING"]
    record = bench.store.recorded(CLUSTER)["Session/p/a"]
    assert (record.phase, record.started_at) == ("CREATING", None)


def test_an_intent_is_on_disk_before_its_effect(bench: Bench) -> None:
    seen: list[tuple[str, str, set[str]]] = []

    def look(operation: str, kernel: str, moment: str) -> None:
        with Store.open(bench.store.path) as other:
            opened = {f"{each.kind} {each.kernel}" for each in other.open_intents(CLUSTER)}
        seen.append((operation, kernel, opened))

    bench.world.at = look
    first = side("a", (0,))
    bench.apply(new("a", 0))
    bench.apply(action("a", first, side("a", (0,), 2)))
    assert {operation for operation, _, _ in seen} == {"create", "stop", "remove"}
    assert all(f"{operation} {kernel}" in opened for operation, kernel, opened in seen)


def test_replacing_and_deleting(bench: Bench) -> None:
    first, second = side("a", (0,)), side("a", (0,), 2)
    bench.apply(new("a", 0))
    bench.apply(action("a", first, second))
    assert set(bench.world.kernels) == {kernel_id("a", 1, 2)}
    bench.apply(action("a", second, None))
    assert not bench.world.kernels and bench.store.recorded(CLUSTER) == {}
    assert bench.transitions("a")[5:] == [
        "TERMINATING", "PENDING", "SCHEDULED", "PREPARING", "CREATING", "RUNNING", "TERMINATING",
        "TERMINATED",
    ]  # fmt: skip


def test_sessions_swap_their_devices_without_sharing_them(bench: Bench) -> None:
    bench.apply(new("a", 0), new("b", 1))
    bench.world.calls.clear()
    swap = (
        action("a", side("a", (0,)), side("a", (1,), 2)),
        action("b", side("b", (1,)), side("b", (0,), 2)),
    )
    assert bench.apply(*swap).ok
    order = [call for call in bench.world.calls if call[0] in ("remove", "create")]
    assert order.index(("remove", kernel_id("b", 1))) < order.index(("create", kernel_id("a", 1, 2)))
    assert order.index(("remove", kernel_id("a", 1))) < order.index(("create", kernel_id("b", 1, 2)))


def test_a_failure_stops_only_what_depends_on_it(bench: Bench) -> None:
    bench.world.inject(Fault("create", kernel_id("a", 1), failure="refused"))
    outcomes = bench.outcomes(
        new("c", 2, depends_on=("Session/p/b",)),
        new("b", 1, depends_on=("Session/p/a",)),
        new("a", 0),
        new("d", 3),
    )
    assert outcomes == {"a": "failed", "b": "skipped", "c": "skipped", "d": "done"}
    assert set(bench.world.kernels) == {kernel_id("d", 1)}
    assert set(bench.store.recorded(CLUSTER)) == {"Session/p/a", "Session/p/d"}
    record = bench.store.recorded(CLUSTER)["Session/p/a"]
    assert (record.phase, record.kernels, record.placement, record.finished_at) == ("ERROR", (), None, NOW)
    assert "injected fault" in record.reason
    told = {(one.action[-1], one.state): one.error for one in bench.events if one.kind == "action"}
    assert set(told) == {
        ("a", "started"),
        ("a", "failed"),
        ("b", "skipped"),
        ("c", "skipped"),
        ("d", "started"),
        ("d", "done"),
    }
    assert "injected fault" in told["a", "failed"] and not told["b", "skipped"]


@pytest.mark.parametrize("moment", ["before", "after"])
def test_all_kernels_of_a_session_or_none(bench: Bench, moment: str) -> None:
    bench.world.inject(Fault("create", kernel_id("a", 2), moment=moment, failure="error"))  # type: ignore[arg-type]
    result = bench.apply(new("a", 0, 1, 2))
    assert result.results[0].outcome == "failed" and "injected fault" in result.results[0].error
    assert bench.world.kernels == {} and bench.phase("a") == "ERROR"
    assert bench.store.open_intents(CLUSTER) == ()


def test_a_kernel_that_cannot_be_taken_back_stays_on_record(bench: Bench) -> None:
    bench.world.inject(Fault("create", kernel_id("a", 2), failure="error"))
    bench.world.inject(Fault("remove", kernel_id("a", 1), failure="error"))
    bench.apply(new("a", 0, 1))
    record = bench.store.recorded(CLUSTER)["Session/p/a"]
    assert (record.phase, record.kernels) == ("CREATING", (kernel_id("a", 1), kernel_id("a", 2)))
    assert record.placement is not None and set(bench.world.kernels) == {kernel_id("a", 1)}


def test_what_may_succeed_later_is_tried_again(bench: Bench) -> None:
    bench.world.inject(Fault("create", times=3))
    assert bench.apply(new("a", 0)).ok
    assert bench.world.clock.now() == pytest.approx(NOW + 0.5 + 1 + 2)
    assert [event.kind for event in bench.events].count("retry") == 3
    bench.world.inject(Fault("create", times=4))
    assert bench.outcomes(new("b", 1)) == {"b": "failed"}


def test_a_failed_release_keeps_the_device_from_the_next(bench: Bench) -> None:
    bench.apply(new("a", 0))
    bench.world.inject(Fault("remove", kernel_id("a", 1), failure="error"))
    outcomes = bench.outcomes(action("a", side("a", (0,)), None), new("b", 0))
    assert outcomes == {"a": "failed", "b": "skipped"}
    assert set(bench.world.kernels) == {kernel_id("a", 1)} and bench.phase("a") == "TERMINATING"


def test_stopping_finishes_what_has_begun_and_nothing_else(bench: Bench) -> None:
    stop = threading.Event()
    bench.world.at = lambda operation, kernel, moment: stop.set()
    result = bench.apply(new("a", 0, 1, 2), new("b", 3, depends_on=("Session/p/a",)), stop=stop, parallel=1)
    assert [each.outcome for each in result.results] == ["done", "stopped"] and result.interrupted
    assert len(bench.world.kernels) == 3 and bench.phase("a") == "RUNNING"
    assert bench.store.lease(CLUSTER) is None


def test_many_at_once_but_no_more_than_asked(bench: Bench) -> None:
    lock, now, most = threading.Lock(), 0, 0
    barrier = threading.Barrier(3)
    bench.world.lock = NoLock()  # type: ignore[assignment]

    def meet(operation: str, kernel: str, moment: str) -> None:
        nonlocal now, most
        with lock:
            now += 1 if moment == "before" else -1
            most = max(most, now)
        if moment == "before":
            barrier.wait(timeout=60)

    bench.world.at = meet
    assert bench.apply(*(new(f"s{n}", n) for n in range(9)), parallel=3).ok
    assert most == 3


class OneByOne:
    """A runner that ends one effect for each wait, and writes down how long it might have waited."""

    def __init__(self) -> None:
        self.open: list[tuple[int, Callable[[], None]]] = []
        self.waits: list[tuple[int, float]] = []

    def submit(self, number: int, effect: Callable[[], None]) -> None:
        self.open.append((number, effect))

    def wait(self, timeout: float) -> list[EndedEffect]:
        self.waits.append((len(self.open), timeout))
        number, effect = self.open.pop(0)
        effect()
        return [(number, None)]

    def close(self) -> None:
        assert not self.open


def test_what_waits_for_a_place_is_waited_for_and_not_asked_about_again_and_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others of its node have all places that it may have, while there is room for other nodes."""
    monkeypatch.setattr("reconciler.apply.executor.node_of", lambda step, _: step.resource[-2])
    runner = OneByOne()
    sessions = ("a1", "a2", "a3", "a4", "b1")
    assert bench.apply(*(new(name, n) for n, name in enumerate(sessions)), parallel=8, runner=runner).ok
    assert max(count for count, _ in runner.waits) == 3
    assert all(timeout > 0 for _, timeout in runner.waits)


class NoLock:
    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


def test_a_stolen_lease_stops_everything(bench: Bench) -> None:
    def steal(operation: str, kernel: str, moment: str) -> None:
        if moment == "after":
            bench.store.steal(CLUSTER, "thief", 60, NOW)

    bench.world.at = steal
    with pytest.raises(LeaseLost):
        bench.apply(new("a", 0), new("b", 1, depends_on=("Session/p/a",)))
    assert set(bench.world.kernels) == {kernel_id("a", 1)} and bench.phase("a") == "CREATING"
    lease = bench.store.lease(CLUSTER)
    assert lease is not None and lease.holder == "thief"


def test_a_long_apply_keeps_its_lease(bench: Bench) -> None:
    bench.world.at = lambda operation, kernel, moment: bench.world.clock.sleep(45)
    chain = [new(f"s{n}", n, depends_on=(f"Session/p/s{n - 1}",)) for n in range(4)]
    assert bench.apply(*chain).ok


def test_only_one_apply_at_a_time(bench: Bench) -> None:
    bench.store.acquire(CLUSTER, "alice", 60, NOW)
    with pytest.raises(LeaseHeld, match="alice"):
        bench.apply(new("a", 0))
    assert not bench.world.calls


def test_a_stale_plan_changes_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reconciler.apply.apply.state_fingerprint", lambda seen, relied: "another")
    with pytest.raises(StalePlan):
        bench.apply(new("a", 0))
    assert (
        not bench.world.kernels and not bench.store.recorded(CLUSTER) and bench.store.lease(CLUSTER) is None
    )


@pytest.mark.parametrize("where", ["record", "action"])
def test_what_is_protected_is_not_deleted(bench: Bench, where: str) -> None:
    bench.apply(new("a", 0))
    if where == "record":
        lease = bench.store.acquire(CLUSTER, "me", 60, NOW)
        bench.store.write(lease, [PutRecord(recorded("a", side("a", (0,)), "RUNNING", protected=True))])
        bench.store.release(lease)
    gone = action("a", side("a", (0,)), None, protected=where == "action")
    with pytest.raises(GuardRefused, match="Session/p/a"):
        bench.apply(gone, new("b", 1))
    assert set(bench.world.kernels) == {kernel_id("a", 1)} and bench.store.lease(CLUSTER) is None


def test_nothing_is_deleted_on_a_guess(bench: Bench) -> None:
    bench.apply(new("a", 0))
    plan = bench.plan(action("a", side("a", (0,)), None), complete=False)
    with pytest.raises(IncompleteObservation):
        apply(plan, bench.targets(), holder="me")
    assert set(bench.world.kernels) == {kernel_id("a", 1)}


def test_circles_are_refused_before_anything_happens(bench: Bench) -> None:
    with pytest.raises(PlanError, match="wait for each other: Session/p/a, Session/p/b"):
        bench.apply(new("a", 0, depends_on=("Session/p/b",)), new("b", 1, depends_on=("Session/p/a",)))
    assert bench.store.lease(CLUSTER) is None


def test_open_steps_of_a_dead_apply_are_resolved_by_looking(bench: Bench) -> None:
    bench.apply(new("a", 0))
    lease = bench.store.acquire(CLUSTER, "dead", 60, NOW)
    steps = [
        ("create", kernel_id("a", 1)),
        ("create", "gone"),
        ("remove", "gone"),
        ("stop", kernel_id("a", 1)),
    ]
    bench.store.write(
        lease,
        [JournalEntry("old", "Session/p/a", f"{kind}:{k}", kind, k, "intent", NOW) for kind, k in steps],
    )
    bench.world.clock.sleep(61)
    bench.apply(new("b", 1))
    ends = {each.step: each.state for each in bench.store.journal(CLUSTER, "old") if each.state != "intent"}
    assert [ends[f"{kind}:{kernel}"] for kind, kernel in steps] == ["done", "failed", "done", "failed"]
    assert bench.store.open_intents(CLUSTER) == ()


def test_secrets_reach_the_kernel_and_nothing_else(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAI_TEST_TOKEN", "hunter2")
    given: list[KernelSpec] = []
    create = bench.provider.create

    def listen(spec: KernelSpec, fence: Fence) -> Observed:
        given.append(spec)
        return create(spec, fence)

    monkeypatch.setattr(bench.provider, "create", listen)
    assert bench.apply(new("secretive", 0)).ok
    assert given[0].secret_env == {"TOKEN": "hunter2"}
    assert b"hunter2" not in b"".join(path.read_bytes() for path in bench.store.path.parent.iterdir())
    assert "hunter2" not in repr(bench.events)


def test_a_missing_secret_fails_its_session_by_name(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BAI_TEST_TOKEN", raising=False)
    result = bench.apply(new("secretive", 0), new("b", 1))
    assert [each.outcome for each in result.results] == ["failed", "done"]
    assert "env/BAI_TEST_TOKEN" in result.results[0].error


def test_adopting_a_kernel_of_other_content_is_refused(bench: Bench) -> None:
    old = side("a", (0,))
    bench.provider.create(
        replace(
            spec("a", kernel_id("a", 1), old), labels=replace(spec("a", "a-main1", old).labels, digest="x")
        )
    )
    result = bench.apply(new("a", 0))
    assert result.results[0].outcome == "failed" and "made from digest x" in result.results[0].error


def test_a_store_that_fails_at_the_very_end_takes_nothing_back(tmp_path: Path) -> None:
    """All that counts is written: the result is known, and we do not stand in our own way."""
    lab = Lab(tmp_path)
    lab.write({"a": session("a")})
    plan = lab.plan()

    def away(*_: object) -> None:
        raise StoreUnavailable(store="it", why="for a moment")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lab.store, "prune", away)
        assert lab.apply(plan).ok
    lab.write({"b": session("b")})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("reconciler.store.leases.release", away)
        assert lab.apply().ok
    lab.write({"c": session("c")})
    assert lab.apply().ok


def test_an_apply_keeps_the_journal_within_its_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab(tmp_path)
    monkeypatch.setattr("reconciler.store.usage_and_contact.MAX_JOURNAL_ROWS", 3)
    for name in "abcd":
        lab.write({name: session(name)})
        assert lab.apply().ok
        assert len(lab.store.journal("here")) <= 4, "of the last one, and what was kept before it"
