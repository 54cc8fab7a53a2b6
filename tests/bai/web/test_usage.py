"""What sessions use, for many who ask a server at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from providers.abilities import Usage
from providers.fake import SimulatedLoad
from reconciler.observe.shared_usage import SharedUsage
from schemas.problems.errors.provider import ProviderError, ProviderUnavailable
from tests.bai.web.lab import Lab
from tests.reconciler.lab import session

HERE = "/api/v1/clusters/here"


class Machines:
    """Measures what it is told, and counts how often; `took` seconds on `clock` each time."""

    def __init__(self) -> None:
        self.asked, self.now, self.took = 0, 100.0, 0.0
        self.failure: ProviderError | None = None

    def usage(self) -> Iterator[Usage]:
        self.asked += 1
        self.now += self.took
        if self.failure is not None:
            raise self.failure
        yield Usage("k1", datetime.fromtimestamp(self.now, UTC), cpu_seconds=float(self.asked))


def test_many_who_ask_are_answered_by_one_measurement() -> None:
    machines = Machines()
    shared = SharedUsage(lambda: machines.now)
    assert [shared.measure(machines)["k1"].cpu_seconds for _ in range(5)] == [1.0] * 5
    machines.now += 2.0
    assert shared.measure(machines)["k1"].cpu_seconds == 2.0 and machines.asked == 2


def test_a_tenth_of_the_time_is_measured_at_most() -> None:
    machines = Machines()
    shared = SharedUsage(lambda: machines.now)
    machines.took = 10.0
    shared.measure(machines)
    machines.now += 89.0
    shared.measure(machines)
    assert machines.asked == 1
    machines.now += 1.0
    shared.measure(machines)
    assert machines.asked == 2


def test_machines_that_fail_are_not_asked_more_often() -> None:
    machines = Machines()
    shared = SharedUsage(lambda: machines.now)
    machines.failure = ProviderUnavailable(provider="fake", why="down")
    for _ in range(3):
        with pytest.raises(ProviderUnavailable, match="down"):
            shared.measure(machines)
    assert machines.asked == 1
    machines.failure, machines.now = None, machines.now + 2.0
    assert shared.measure(machines)["k1"].cpu_seconds == 2.0


def test_nobody_waits_for_a_measurement_but_the_first() -> None:
    machines, entered, go = Machines(), threading.Event(), threading.Event()
    shared = SharedUsage(lambda: machines.now)
    first = shared.measure(machines)
    machines.now += 2.0

    class Slow(Machines):
        def usage(self) -> Iterator[Usage]:
            entered.set()
            assert go.wait(60)
            return iter(())

    slow = threading.Thread(target=shared.measure, args=(Slow(),))
    slow.start()
    try:
        assert entered.wait(60)
        assert shared.measure(machines) is first
    finally:
        go.set()
        slow.join(60)
    assert shared.measure(machines) == {}


def test_what_ones_sessions_use(lab: Lab) -> None:
    lab.write("a", session("a"))
    lab.write("other", "apiVersion: bai/v1\nkind: Project\nmetadata: {name: other}\n---\n"
              + session("b").replace("project: p", "project: other"))  # fmt: skip
    lab.once()
    lab.once()
    for kernel in lab.world.kernels:
        lab.world.use(kernel, SimulatedLoad(cores=2.0, network=1000.0))
    lab.world.clock.sleep(10)
    (mine,) = lab.get(f"{HERE}/usage", "ours")["kernels"]
    assert (mine["session"], mine["kernel"]) == ("Session/p/a", "main1") and mine["cpuSeconds"] >= 20.0
    assert {each["session"] for each in lab.get(f"{HERE}/usage")["kernels"]} == {
        "Session/p/a",
        "Session/other/b",
    }
    assert lab.status(f"{HERE}/usage", "") == 401


def test_a_provider_that_does_not_measure_says_so(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.once()
    monkeypatch.setattr(lab.workspace, "provider", object())
    answer = lab.client.get(f"{HERE}/usage", headers={"Authorization": "Bearer viewer"})
    assert answer.status_code == 409 and "measure what sessions use" in answer.text
