"""Replicas of services are drained before they stop: which steps, in which order, and what does not wait."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planner.model.types import KernelPlacement, Placement
from providers.base import KernelSpec, Labels
from providers.fake import FakeProvider, World
from reconciler.apply.action_graph import build_action_graph
from reconciler.apply.apply import apply
from reconciler.apply.effect_slots import MOST_DRAINS, startable
from reconciler.apply.progress import QueuedEffect
from reconciler.apply.steps import Step, action_steps
from reconciler.apply.targets import ApplyTargets
from reconciler.store.store import Store
from reconciler.values.changes.cause import NEW
from reconciler.values.plan import Action, Plan
from reconciler.values.results import ApplyEvent, ApplyResult
from reconciler.values.services.pattern import (
    generation_of,
    pattern_of,
    replica_notes,
    replica_ref,
    replica_session,
)
from reconciler.values.sides import SessionSide
from reconciler.values.state import Actual
from schemas.kinds.service import Service
from schemas.kinds.session import Session
from schemas.values.canonical import canonical_document
from tests.waiting import until

CLUSTER = "here"
PORT = {"name": "http", "port": 80}


def service(drain: str = "45s") -> Service:
    return Service.model_validate(
        {
            "apiVersion": "bai/v1", "kind": "Service", "metadata": {"name": "web", "project": "p"},
            "spec": {"template": {"command": ["serve"], "ports": [PORT]}, "drain": drain},
        }
    )  # fmt: skip


def session(**annotations: str) -> Session:
    return Session.model_validate(
        {
            "apiVersion": "bai/v1", "kind": "Session", "spec": {"command": ["serve"]},
            "metadata": {"name": "web", "project": "p", "annotations": annotations},
        }
    )  # fmt: skip


def replica_document(drain: str = "45s", number: int = 1) -> Mapping[str, Any]:
    pattern = pattern_of(service(drain), session())
    return canonical_document(
        replica_session(pattern.session, pattern.generation, number, replica_notes(pattern.service))
    )


def removed(document: Mapping[str, Any], phase: str = "RUNNING") -> Action:
    """What takes away the session with this document."""
    name = document["metadata"]["name"]
    kernels = (KernelPlacement("main1", "n1", (0,), 1000, (0,), 1 << 30, ()),)
    placement = Placement(f"Session/p/{name}", "default", kernels)
    before = SessionSide(1, "d1", document=document, phase=phase, placement=placement, kernels=(f"{name}-k",))
    return Action(f"Session/p/{name}", CLUSTER, before, None, cause=NEW)


def plan_of(*actions: Action) -> Plan:
    return Plan("repo", CLUSTER, "c0ffee", "", "basis", complete=True, actions=actions)


def steps(action: Action) -> list[tuple[str, float]]:
    return [(each.kind, each.grace) for each in action_steps(action, plan_of(action))]


def test_how_long_replicas_are_drained_is_no_part_of_what_they_are() -> None:
    """A change of it replaces none of them."""
    one, other = (pattern_of(service(drain), session()) for drain in ("45s", "1h"))
    assert one.generation == other.generation == generation_of(canonical_document(session()))
    assert generation_of(canonical_document(one.session)) == one.generation
    noted = pattern_of(service(), session(**{"team/note": "x"}))
    assert noted.generation == generation_of(canonical_document(session(**{"team/note": "x"})))
    assert noted.generation != one.generation


def test_a_replica_is_drained_before_it_is_stopped() -> None:
    assert steps(removed(replica_document())) == [
        ("record", 10.0), ("drain", 45.0), ("stop", 10.0), ("remove", 10.0), ("forget", 10.0),
    ]  # fmt: skip
    ended = replace(removed(replica_document()), after=SessionSide(1, "d1", phase="PENDING"))
    assert [kind for kind, _ in steps(ended)][:2] == ["drain", "stop"]


def test_what_is_no_replica_that_runs_is_not_drained() -> None:
    """Nor does a session of people's have bai wait for it by a note."""
    plain = canonical_document(session(**{"bai/drain": "3600"}))
    for action in (
        removed(plain), removed(replica_document("0s")), removed(replica_document(), "TERMINATED"),
        removed(replica_document(), "ERROR"),
    ):  # fmt: skip
        assert "drain" not in [kind for kind, _ in steps(action)]


@pytest.mark.parametrize(("said", "grace"), [("99999999999", 3600.0), ("-1", 0), ("1e9", 0), ("", 0)])
def test_no_record_holds_up_an_apply_for_longer_than_documents_may(said: str, grace: float) -> None:
    document = replica_document()
    metadata = {**document["metadata"], "annotations": {"bai/drain": said}}
    found = dict(steps(removed({**document, "metadata": metadata})))
    assert found.get("drain", 0) == grace
    assert replica_ref(removed(document).id, document) is not None


def test_a_drain_is_a_wave_of_its_own_before_what_is_released() -> None:
    (part,) = build_action_graph(plan_of(removed(replica_document()))).values()
    assert [wave[0].kind for wave in part.waves] == ["record", "drain", "stop", "remove", "forget"]


def test_who_is_drained_takes_nobodys_place() -> None:
    def effects(kind: Any, count: int) -> list[QueuedEffect]:
        return [QueuedEffect(Step(kind, "s", "k"), None, node="n1") for _ in range(count)]  # type: ignore[arg-type]

    drains, creates = effects("drain", 2 * MOST_DRAINS), effects("create", 20)
    assert len(startable([*drains, *creates], [], 4, 0.0)) == MOST_DRAINS + 4
    assert len(startable(creates, drains[:MOST_DRAINS], 4, 0.0)) == 4
    assert startable(drains, drains[:MOST_DRAINS], 4, 0.0) == []


class Requests:
    """Those that replicas still have, until `done`."""

    def __init__(self, log: list[str]) -> None:
        self.log, self.done, self.killed, self.waits = log, threading.Event(), False, True

    def follow(self, plan: Plan, actual: Actual) -> None:
        self.log.append("follow")

    def drain(self, kernel: str, grace: float, waits: Callable[[int], None], stop: threading.Event) -> bool:
        self.log.append(f"drain {kernel.split('-')[-2]} {grace:g}")
        waits(3)
        if self.killed:
            raise KeyboardInterrupt
        while not self.done.wait(0.01) and not stop.is_set() and self.waits:
            continue
        return self.done.is_set()


class Bench:
    """Kernels of sessions that are there, and an engine to take them away."""

    def __init__(self, path: Path, *documents: Mapping[str, Any]) -> None:
        self.world, self.log = World(), list[str]()
        self.provider, self.store = FakeProvider(self.world), Store.open(path)
        self.requests = Requests(self.log)
        self.events: list[ApplyEvent] = []
        self.actions = [removed(each) for each in documents]
        for action in self.actions:
            kernel = action.session_before.kernels[0]  # type: ignore[union-attr]
            labels = Labels("repo", CLUSTER, action.id, 1, "d1", "main1", "n1")
            self.provider.create(KernelSpec(kernel, labels, ("true",), {}))
        self.world.at = lambda operation, kernel, moment: self.log.append(operation)

    def apply(self, **options: Any) -> ApplyResult:
        targets = ApplyTargets(self.store, self.provider, self.world.clock, traffic=self.requests)
        plan = plan_of(*self.actions)
        return apply(plan, targets, holder="me", on_event=self.events.append, **options)


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Bench]]:
    monkeypatch.setattr("reconciler.apply.apply.observe", lambda *_, **__: Actual("repo", CLUSTER))
    monkeypatch.setattr("reconciler.apply.apply.state_fingerprint", lambda *_: "basis")
    made: list[Bench] = []

    def bench(*documents: Mapping[str, Any]) -> Bench:
        made.append(Bench(tmp_path / "store.db", *documents))
        return made[-1]

    yield bench
    for each in made:
        each.store.close()


def in_thread(do: Callable[[], ApplyResult]) -> list[ApplyResult]:
    found: list[ApplyResult] = []
    threading.Thread(target=lambda: found.append(do()), daemon=True).start()
    return found


def test_requests_go_by_the_new_plan_before_anything_is_drained(make: Callable[..., Bench]) -> None:
    bench = make(replica_document())
    bench.requests.done.set()
    assert bench.apply().ok
    wanted = ["follow", "drain 1 45", "stop", "remove"]
    assert [each for each in dict.fromkeys(bench.log)] == wanted
    told = [each.connections for each in bench.events if each.connections is not None]
    assert told == [3] and bench.world.kernels == {}


def test_a_replica_with_requests_holds_up_nothing_else(make: Callable[..., Bench]) -> None:
    """Not even where only one effect runs at a time."""
    plain = canonical_document(session())
    bench = make(replica_document(), replica_document(number=2), plain)
    result = in_thread(lambda: bench.apply(parallel=1))
    until(lambda: len(bench.world.kernels) == 2, "the session is gone")
    until(lambda: bench.log.count("drain 1 45") + bench.log.count("drain 2 45") == 2, "both are drained")
    assert not result
    bench.requests.done.set()
    until(lambda: result, "it ends")
    assert result[0].ok and bench.world.kernels == {}


def test_who_says_stop_does_not_wait_for_requests(make: Callable[..., Bench]) -> None:
    """And what has them goes on."""
    bench, stop = make(replica_document()), threading.Event()
    result = in_thread(lambda: bench.apply(stop=stop))
    until(lambda: "drain 1 45" in bench.log, "it is drained")
    stop.set()
    until(lambda: result, "it ends")
    assert [each.outcome for each in result[0].results] == ["stopped"]
    assert "stop" not in bench.log and len(bench.world.kernels) == 1
    assert bench.store.open_intents(CLUSTER) == ()


def test_killed_while_it_drains_the_next_apply_drains_again(make: Callable[..., Bench]) -> None:
    bench = make(replica_document())
    bench.requests.killed = True
    with pytest.raises(KeyboardInterrupt):
        bench.apply()
    assert [each.kind for each in bench.store.open_intents(CLUSTER)] == ["drain"]
    record = bench.store.recorded(CLUSTER)[bench.actions[0].id]
    assert record.phase == "TERMINATING" and len(bench.world.kernels) == 1
    bench.requests.killed = False
    bench.requests.done.set()
    assert bench.apply().ok and bench.world.kernels == {}
    assert bench.log.count("drain 1 45") == 2 and bench.store.open_intents(CLUSTER) == ()


def test_what_takes_longer_is_the_next_applies(make: Callable[..., Bench]) -> None:
    """No apply waits for somebody who keeps a connection; that is no failure."""
    plain = canonical_document(session())
    bench = make(replica_document(), plain)
    bench.requests.waits = False
    result = bench.apply()
    assert [(each.outcome, each.draining) for each in result.results] == [("stopped", True), ("done", False)]
    assert result.ok and not result.interrupted and len(bench.world.kernels) == 1
    assert bench.store.recorded(CLUSTER)[bench.actions[0].id].phase == "TERMINATING"
    assert bench.store.open_intents(CLUSTER) == ()
    bench.requests.done.set()
    bench.actions = bench.actions[:1]
    assert bench.apply().ok and bench.world.kernels == {} and bench.store.recorded(CLUSTER) == {}


def test_who_waits_for_what_is_drained_waits_for_the_next_apply(make: Callable[..., Bench]) -> None:
    bench = make(replica_document(), canonical_document(session()))
    bench.requests.waits = False
    first, second = bench.actions
    bench.actions = [first, replace(second, in_turn=first.id)]
    result = bench.apply()
    assert [(each.outcome, each.draining) for each in result.results] == [("stopped", True)] * 2
    assert result.ok and len(bench.world.kernels) == 2
