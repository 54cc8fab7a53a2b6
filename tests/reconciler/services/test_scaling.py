"""How many replicas a service has, by what is asked of it and by the clock."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from planner.model.plan_time import PlanTime
from reconciler.observe.scaling.autoscaler import Autoscaler, ScaledService
from reconciler.observe.scaling.queries import KEPT, MOST_OF_PROJECT, PERIOD, QueryAnswers
from reconciler.observe.scaling.sources import Requests, percentile
from reconciler.plan.services.scale import bounds_at, wanted_replicas
from reconciler.values.services.scaling import ScaleDecision, ServiceLoad, recommend
from reconciler.values.services.state import ServiceState
from schemas.kinds.parts.autoscaling import Autoscaling
from tests.reconciler.services.world import ID, ServiceWorld, service


def rules(**said: Any) -> Autoscaling:
    return Autoscaling.model_validate({"max": 10, **said})


class Load:
    """What is asked of the service, as the test says."""

    def __init__(self) -> None:
        self.now, self.woken, self.queries = 1000.0, 0, 0
        self.asked = Requests(0, 0.0)
        self.answer: float | None = None

    def requests(self, service: str) -> Requests:
        assert service == ID
        return self.asked

    def query(self, text: str) -> float | None:
        self.queries += 1
        return self.answer

    def autoscaler(self) -> Autoscaler:
        queries = QueryAnswers(self.query, lambda: self.now, lambda work: work())
        return Autoscaler(self, queries, lambda: self.now, lambda: None)

    def held(self, scaler: Autoscaler) -> int | None:
        found = scaler.decisions().get(ID)
        return found.replicas if found is not None else None


def watch(scaler: Autoscaler, said: Autoscaling, ready: int = 1, **more: Any) -> None:
    scaler.halt()  # The test looks, and no thread does.
    scaler.watch({ID: ScaledService(said, 1, ready, **more)})


@pytest.mark.parametrize(
    ("said", "load", "ready", "replicas"),
    [
        ({"inFlight": 4}, {"in_flight": 9}, 1, 3),
        ({"inFlight": 4}, {"in_flight": 8}, 2, 2),
        ({"inFlight": 10}, {"in_flight": 21}, 2, 2),
        ({"inFlight": 10}, {"in_flight": 23}, 2, 3),
        ({"inFlight": 4}, {"in_flight": 0}, 2, 0),
        ({"requestsPerSecond": 50}, {"requests_per_second": 120.0}, 1, 3),
        ({"latency": {"below": "2s"}}, {"latency": 5.0}, 2, 5),
        ({"gpuUtilization": "50%"}, {"gpu": 90.0}, 2, 4),
        ({"prometheus": {"query": "q", "target": 3}}, {"prometheus": 7.0}, 1, 3),
        ({"inFlight": 4, "requestsPerSecond": 10}, {"in_flight": 4, "requests_per_second": 70.0}, 1, 7),
    ],
)
def test_each_measure_says_how_many_it_needs_and_the_most_counts(
    said: dict[str, Any], load: dict[str, float], ready: int, replicas: int
) -> None:
    found = recommend(rules(**said), ServiceLoad(0.0, **load), ready)
    assert found is not None and found.replicas == replicas


def test_what_nobody_measures_recommends_nothing() -> None:
    assert recommend(rules(latency={"below": "2s"}), ServiceLoad(0.0), 3) is None
    assert recommend(rules(gpuUtilization="50%"), ServiceLoad(0.0), 3) is None


def test_more_come_at_once_and_fewer_after_the_window() -> None:
    load = Load()
    scaler = load.autoscaler()
    watch(scaler, rules(inFlight=2, down={"window": "60s"}))
    load.asked = Requests(9, 0.0)
    assert scaler.look() and load.held(scaler) == 5
    decision = scaler.decisions()[ID]
    assert decision.why == "9 requests in flight, 2 for each replica"
    load.asked = Requests(0, 0.0)
    for _ in range(59):
        load.now += 1
        assert not scaler.look()
    load.now += 2
    assert scaler.look() and load.held(scaler) == 1


def test_a_dip_within_the_window_takes_nothing_away() -> None:
    load = Load()
    scaler = load.autoscaler()
    watch(scaler, rules(inFlight=1, down={"window": "60s"}))
    for second in range(600):
        load.asked = Requests(6 if second % 50 == 0 else 1, 0.0)
        load.now += 1
        scaler.look()
        assert load.held(scaler) == 6


def test_up_waits_for_its_own_window() -> None:
    load = Load()
    scaler = load.autoscaler()
    watch(scaler, rules(inFlight=1, up={"window": "30s"}))
    for _ in range(31):
        scaler.look()
        load.now += 1
    load.asked = Requests(5, 0.0)
    for _ in range(29):
        assert not scaler.look()
        load.now += 1
    load.now += 2
    assert scaler.look() and load.held(scaler) == 5


def test_zero_and_the_first_request_that_waits() -> None:
    load = Load()
    scaler = load.autoscaler()
    watch(scaler, rules(min=0, inFlight=8, down={"window": "10s"}))
    for _ in range(12):
        scaler.look()
        load.now += 1
    assert load.held(scaler) == 0
    load.asked = Requests(1, 0.1)
    assert scaler.look() and load.held(scaler) == 1


def test_what_was_recorded_is_held_after_a_restart() -> None:
    load = Load()
    scaler = load.autoscaler()
    watch(scaler, rules(inFlight=1), held=ScaleDecision(7, 900.0, "before"))
    assert not scaler.look() and load.held(scaler) == 7


def test_a_query_is_not_asked_with_each_look_and_may_have_no_answer() -> None:
    load = Load()
    scaler = load.autoscaler()
    watch(scaler, rules(prometheus={"query": "up", "target": 1}))
    assert not scaler.look() and load.queries == 1
    load.answer = 4.0
    load.now += 1
    assert not scaler.look() and load.queries == 1
    load.now += PERIOD
    assert scaler.look() and load.held(scaler) == 4 and load.queries == 2


def test_an_answer_counts_for_a_while_and_then_nobody_knows() -> None:
    load = Load()
    load.answer = 4.0
    answers = QueryAnswers(load.query, lambda: load.now, lambda work: work())
    assert answers.answer(ID, "q") == 4.0
    load.answer = None
    load.now += KEPT
    assert answers.answer(ID, "q") == 4.0
    load.now += 1
    assert answers.answer(ID, "q") is None
    load.answer = 2.0
    assert answers.answer(ID, "another") == 2.0, "it is about another query now"
    answers.forget(())
    load.now -= 10_000
    assert answers.answer(ID, "another") == 2.0


def test_slow_queries_keep_nobody_waiting_and_no_other_project() -> None:
    """A committer writes many services with queries that take long."""
    begun: list[Any] = []
    load = Load()
    load.answer = 7.0
    answers = QueryAnswers(load.query, lambda: load.now, begun.append)
    for number in range(100):
        assert answers.answer(f"Service/mallory/s{number}", "slow") is None
    assert len(begun) == MOST_OF_PROJECT
    assert answers.answer(ID, "q") is None and len(begun) == MOST_OF_PROJECT + 1
    begun[-1]()
    assert answers.answer(ID, "q") == 7.0
    assert answers.answer("Service/mallory/s0", "slow") is None


def test_nothing_is_taken_away_while_a_measure_is_not_known() -> None:
    said = rules(inFlight=4, prometheus={"query": "q", "target": 3})
    assert recommend(said, ServiceLoad(0.0, in_flight=4), 3) is None
    found = recommend(said, ServiceLoad(0.0, in_flight=40), 3)
    assert found is not None and found.replicas == 10
    found = recommend(said, ServiceLoad(0.0, in_flight=4, prometheus=3.0), 3)
    assert found is not None and found.replicas == 1
    gpu = rules(inFlight=4, gpuUtilization="50%")
    assert recommend(gpu, ServiceLoad(0.0, in_flight=4), 3) is None
    assert recommend(rules(inFlight=4), ServiceLoad(0.0), 3) is None
    late = rules(inFlight=4, latency={"below": "2s"})
    found = recommend(late, ServiceLoad(0.0, in_flight=0), 3)
    assert found is not None and found.replicas == 0, "who asks nothing waits for nothing"


def test_where_nobody_counts_requests_nothing_is_taken_away() -> None:
    """A loop without apps, and a service without a URL."""
    load = Load()
    blind = Autoscaler(None, None, lambda: load.now, lambda: None)
    without_url = load.autoscaler()
    for scaler, has_url in ((blind, True), (without_url, False)):
        said = rules(inFlight=4, down={"window": "0s"})
        watch(scaler, said, held=ScaleDecision(3, 900.0, "before"), has_url=has_url)
        load.now += 10
        assert not scaler.look() and load.held(scaler) == 3


def test_a_service_that_is_gone_is_forgotten() -> None:
    load = Load()
    scaler = load.autoscaler()
    load.asked = Requests(5, 0.0)
    watch(scaler, rules(inFlight=1))
    assert scaler.look()
    scaler.watch({})
    assert not scaler.decisions() and not scaler.look()


def test_its_thread_wakes_who_waits() -> None:
    from tests.waiting import until

    load = Load()
    woken: list[int] = []
    scaler = Autoscaler(load, None, lambda: load.now, lambda: woken.append(1))
    load.asked = Requests(3, 0.0)
    scaler.watch({ID: ScaledService(rules(inFlight=1), 1, 1)})
    try:
        until(lambda: bool(woken))
        assert load.held(scaler) == 3
    finally:
        scaler.halt()


def test_percentiles() -> None:
    assert percentile([], 95) is None
    assert percentile([3.0], 95) == 3.0
    assert percentile([float(n) for n in range(1, 101)], 95) == 95.0
    assert percentile([1.0, 2.0], 50) == 1.0


# In plans


def at(text: str) -> PlanTime:
    return PlanTime(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


OFFICE = {
    "days": ["mon", "tue"], "since": "08:00", "until": "18:00", "timezone": "Europe/Berlin",
    "min": 3, "max": 6,
}  # fmt: skip
NIGHT = {"since": "22:00", "until": "06:00", "min": 0, "max": 1}


@pytest.mark.parametrize(
    ("moment", "bounds"),
    [
        ("2026-11-30T07:00", (3, 6)),  # Monday, 08:00 in Berlin.
        ("2026-11-30T06:59", (1, 10)),
        ("2026-11-30T16:59", (3, 6)),
        ("2026-11-30T17:00", (1, 10)),
        ("2026-12-02T12:00", (1, 10)),
        ("2026-12-02T23:00", (0, 1)),
        ("2026-12-03T05:59", (0, 1)),
        ("2026-12-03T06:00", (1, 10)),
    ],
)
def test_bounds_of_the_hour(moment: str, bounds: tuple[int, int]) -> None:
    said = rules(inFlight=1, schedule=[OFFICE, NIGHT])
    assert bounds_at(said, at(moment))[:2] == bounds


def test_a_plan_holds_until_the_bounds_become_others() -> None:
    time = at("2026-11-30T05:30")
    said = rules(inFlight=1, schedule=[OFFICE, NIGHT])
    assert bounds_at(said, time)[:2] == (0, 1)
    assert time.valid_until == at("2026-11-30T06:00").seconds


def test_the_plan_takes_what_is_held_within_the_bounds() -> None:
    spec = service(replicas=2, autoscaling={"min": 1, "max": 4, "inFlight": 1}).spec
    time = at("2026-11-30T12:00")
    assert wanted_replicas(spec, None, time) == (2, "")
    held = ScaleDecision(3, 0.0, "6 requests in flight, 2 for each replica")
    assert wanted_replicas(spec, held, time) == (3, f"the autoscaler holds 3: {held.why}")
    many = replace(held, replicas=9)
    assert wanted_replicas(spec, many, time)[0] == 4
    assert "at most 4" in wanted_replicas(spec, many, time)[1]


def test_what_the_autoscaler_holds_is_done_and_recorded_and_goes_with_the_rules() -> None:
    scaled = {"min": 1, "max": 6, "inFlight": 1}
    world = ServiceWorld(service(replicas=1, autoscaling=scaled))
    latest = world.settle().latest
    world.scale = ScaleDecision(4, world.now, "4 requests in flight, 1 for each replica")
    status = world.settle()
    assert (status.wanted, status.latest, len(world.existing)) == (4, latest, 4)
    assert "the autoscaler holds 4" in status.scale and world.state.scale == world.scale
    world.scale = None
    assert world.settle().wanted == 4, "nobody looks just now: what is recorded is held"
    world.wanted = service(replicas=2)
    assert world.settle().wanted == 2 and world.state.scale is None


def test_an_update_under_load_keeps_what_the_autoscaler_holds() -> None:
    scaled = {"min": 1, "max": 6, "inFlight": 1}
    world = ServiceWorld(service(replicas=1, autoscaling=scaled))
    world.scale = ScaleDecision(3, world.now, "3 requests in flight, 1 for each replica")
    world.settle()
    world.wanted = service("two", replicas=1, autoscaling=scaled)
    status = world.settle()
    assert (status.phase, status.wanted, len(world.names(status.latest))) == ("complete", 3, 3)


def test_the_state_survives_json() -> None:
    from reconciler.values.services.state import state_from_json, state_to_json

    state = ServiceState(stable="a" * 8, scale=ScaleDecision(2, 5.0, "why"))
    assert state_from_json(state_to_json(state)) == state


def test_a_loop_that_stands_by_begins_anew_with_what_is_recorded() -> None:
    """What it held when it acted last is older than what another one has written down since."""
    from types import SimpleNamespace
    from typing import cast

    from reconciler.values.records import Recorded
    from reconciler.values.services.pattern import pattern_of
    from reconciler.values.state import Actual, Desired, Existing
    from reconciler.workspace.service_scaling import ServiceScaling
    from tests.reconciler.services.world import pattern_session

    wanted = service(replicas=1, autoscaling={"min": 1, "max": 9, "inFlight": 1})
    repository = cast(Any, SimpleNamespace(app_proxy_of=lambda cluster: object()))
    desired = Desired(
        repo="r", cluster="c", commit="", tree="", repository=repository, resources={}, documents={},
        digests={}, services={ID: pattern_of(wanted, pattern_session(wanted))},
    )  # fmt: skip

    def seen(replicas: int) -> Actual:
        state = ServiceState(scale=ScaleDecision(replicas, 1.0, "why"))
        return Actual("r", "c", {ID: Existing(ID, Recorded(ID, "c", 1, "", {}, service=state), "")})

    scaling = ServiceScaling(lambda: 1000.0)
    scaling.keep_scaling(lambda: None)
    try:
        assert scaling.add_scales(seen(3), desired).scales[ID].replicas == 3
        assert scaling.add_scales(seen(5), desired).scales[ID].replicas == 3, "it is its own"
        scaling.rest()
        assert scaling.add_scales(seen(5), desired).scales[ID].replicas == 5
    finally:
        scaling.halt()
