"""A clock that was ahead and is set right: nothing waits for the time that was."""

from __future__ import annotations

from pathlib import Path

import pytest

from providers.fake import World
from providers.health.facts import MachineFacts
from providers.health.values import ExpectedNode, NodeHealth
from providers.machines.base import Endpoint
from reconciler.apply.journal_writer import JournalWriter
from reconciler.controller.backoff import Backoff
from reconciler.notify import throttle
from reconciler.notify.state import Batch, Outbox
from reconciler.observe import health as healths
from reconciler.observe.usage_samples import sample_changes
from reconciler.values.records import Sample
from schemas.problems.errors.provider import ProviderUnavailable
from schemas.problems.errors.store import LeaseHeld
from tests.reconciler.lab import Lab, new_store, session
from tests.reconciler.notify.support import notification

YEAR = 365 * 86_400.0


def set_back(world: World, seconds: float = YEAR) -> None:
    world.clock._now -= seconds


def test_what_failed_in_the_time_that_was_is_tried_again() -> None:
    known = Backoff(first=30)
    known.record_failure("Session/p/a", "d", YEAR)
    assert known.held_back({"Session/p/a": "d"}, YEAR + 10) == {"Session/p/a"}
    assert not known.held_back({"Session/p/a": "d"}, 1000.0)


def test_nodes_are_asked_for_their_health_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def ask(machines: dict[str, object], expected: dict[str, ExpectedNode]) -> dict[str, NodeHealth]:
        asked.append(sorted(machines))
        return {name: NodeHealth(name, (), MachineFacts(), expected[name]) for name in machines}

    monkeypatch.setattr("providers.health.query.query_health", ask)
    healths.forget_health()
    wanted, expected = {"n1": Endpoint("n1", "192.0.2.1")}, {"n1": ExpectedNode()}
    for now in (YEAR, YEAR + 1, 1000.0):
        healths._ask_stale(wanted, expected, now, 60.0)
    healths.forget_health()
    assert asked == [["n1"], ["n1"]]


def test_messages_do_not_wait_for_it() -> None:
    box = Outbox(sending=Batch((), began=YEAR, tries=3, again=YEAR + 60))
    assert not throttle.is_due(box, YEAR)
    assert throttle.is_due(box, 1000.0)


def test_throttled_messages_neither() -> None:
    spec = notification(throttle={"burst": 1, "every": "1h"}).spec
    box = Outbox(times=(YEAR,), waiting=())
    assert throttle.begin_batch(box, spec, 1000.0).times == ()


def test_use_is_measured_again() -> None:
    before = (Sample(YEAR, 1.0, 1.0, 1.0),)
    (change,) = sample_changes({"k": before}, {"k": Sample(1000.0, 2.0, 2.0, 2.0)}, {"k"}, 1000.0)
    assert change.add == (Sample(1000.0, 2.0, 2.0, 2.0),)
    assert change.drop == (YEAR,)


def test_a_lease_is_renewed_all_the_same(tmp_path: Path) -> None:
    """The server's clock, by which it ends, goes on."""
    world = World()
    world.clock.sleep(YEAR)
    with new_store(tmp_path / "store.db") as store:
        ledger = JournalWriter(store, world.clock, "here", "us", "")
        set_back(world)
        ledger.renew()
        assert ledger.lease.expires == world.clock.now() + ledger.lease.ttl
        with pytest.raises(LeaseHeld):
            store.acquire("here", "them", 60, world.clock.now() + 30)


def test_a_step_that_is_tried_again_is_not_put_off_for_a_year(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.write({"a": session("a")})
    lab.world.clock.sleep(YEAR)
    failed: list[str] = []

    def at(operation: str, kernel: str, moment: str) -> None:
        if (operation, moment) == ("create", "before") and not failed:
            failed.append(kernel)
            set_back(lab.world)
            raise ProviderUnavailable(provider="fake", why="for a moment")

    plan = lab.plan()
    lab.world.at = at
    began = lab.world.clock.now() - YEAR
    assert lab.apply(plan).ok
    assert failed and lab.world.clock.now() - began < 3600
