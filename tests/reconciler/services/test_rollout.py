"""Replicas of one generation give way to those of the next, within the bounds of the service."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from reconciler.values.services.readiness import Readiness
from reconciler.values.services.state import RolloutOrder
from reconciler.values.services.status import ServiceStatus
from tests.reconciler.services.world import ID, ServiceWorld, service


def available(world: ServiceWorld) -> int:
    return sum(world.readiness[each].ready for each in world.existing)


def test_the_first_generation_comes_up_at_once_and_is_complete_when_all_are_ready() -> None:
    world = ServiceWorld(service(replicas=4))
    status = world.step()
    assert (status.phase, status.count("new"), status.stable) == ("progressing", 4, "")
    status = world.step()
    assert (status.phase, status.count("unready"), len(world.existing)) == ("progressing", 4, 4)
    assert world.state.stable == ""
    world.ready()
    assert (world.step().phase, world.state.stable) == ("complete", status.latest)
    assert world.names() == [f"Session/p/web-{status.latest}-{number}" for number in (1, 2, 3, 4)]


@pytest.mark.parametrize(("surge", "unavailable"), [(1, 0), (0, 1), (2, 1), (4, 0), (0, 4), (1, 4)])
@pytest.mark.parametrize("replicas", [1, 3, 4])
def test_an_update_stays_within_its_bounds_whatever_gets_ready_when(
    surge: int, unavailable: int, replicas: int
) -> None:
    chance = random.Random(f"{surge} {unavailable} {replicas}")
    rules = {"surge": surge, "unavailable": unavailable}
    world = ServiceWorld(service(replicas=replicas, update=rules))
    first = world.settle().latest
    world.wanted = service("two", replicas=replicas, update=rules)
    for _ in range(200):
        status = world.step()
        assert len(world.existing) <= replicas + surge
        assert available(world) >= replicas - unavailable
        waiting = [each for each in sorted(world.existing) if not world.readiness[each].ready]
        if not waiting and status.phase == "complete":
            break
        world.ready(*(each for each in waiting if chance.random() < 0.5), to=True) if waiting else None
    assert status.phase == "complete" and status.stable == status.latest != first
    assert not world.names(first) and len(world.existing) == replicas


def test_what_is_scaled_goes_up_and_down_without_a_new_generation() -> None:
    world = ServiceWorld(service(replicas=2))
    first = world.settle()
    world.wanted = service(replicas=5)
    assert world.settle().latest == first.latest and len(world.existing) == 5
    world.wanted = service(replicas=1)
    world.settle()
    assert world.names() == [f"Session/p/web-{first.latest}-1"]
    world.wanted = service(replicas=0)
    assert world.settle().phase == "complete" and not world.existing


def test_a_generation_that_does_not_get_ready_makes_way_for_the_last_good_one() -> None:
    world = ServiceWorld(service(replicas=3))
    good = world.settle().latest
    world.wanted = service("bad", replicas=3)
    bad = world.step().latest
    assert len(world.names(bad)) == 1 and len(world.names(good)) == 3
    world.now += 599
    assert world.step().phase == "progressing"
    world.now += 1
    status = world.step()
    assert (status.phase, status.target) == ("failed", good)
    assert "not ready within 10m: nothing listens" in status.why
    assert not world.names(bad) and len(world.names(good)) == 3
    assert world.step().phase == "failed", "git still says so"
    world.wanted = service("better", replicas=3)
    assert world.settle().phase == "complete"
    world.wanted = service("bad", replicas=3)
    assert world.step().phase == "failed", "it is remembered"


def test_without_rollback_it_stays_as_it_is_and_is_called_failed() -> None:
    world = ServiceWorld(service(replicas=2, update={"rollback": False}))
    good = world.settle().latest
    world.wanted = service("bad", replicas=2, update={"rollback": False})
    bad = world.step().latest
    world.now += 600
    status = world.step()
    assert (status.phase, status.target) == ("failed", bad)
    assert len(world.names(bad)) == 1 and len(world.names(good)) == 2
    world.ready()
    assert world.settle().phase == "complete", "it got ready after all"


def test_a_first_generation_that_fails_has_nothing_to_go_back_to() -> None:
    world = ServiceWorld(service(replicas=1))
    only = world.step().latest
    world.now += 600
    assert (world.step().phase, world.step().target) == ("failed", only)
    world.ready()
    assert world.step().phase == "complete" and not world.state.failed


def test_one_that_ends_again_and_again_is_given_up_before_the_deadline() -> None:
    world = ServiceWorld(service(replicas=1))
    good = world.settle().latest
    world.wanted = service("bad", replicas=1)
    bad = world.step().latest
    for ends in range(1, 6):
        [name] = world.names(bad)
        world.phase(name, "ERROR", finished_at=world.now, generation=ends, reason="exited with 1")
        status = world.step()
        if ends < 5:
            assert status.phase == "progressing"
            assert world.existing[name].phase == "ERROR", "it waits a little"
            world.now += 10.0 * 2 ** (ends - 1)
            world.step()
            assert world.existing[name].recorded.generation == ends + 1
    assert status.phase == "failed" and "ended 5 times" in status.why
    assert world.names(good) and not world.names(bad)


def test_undo_goes_back_for_as_long_as_the_document_stays() -> None:
    world = ServiceWorld(service(replicas=2))
    old = world.settle().latest
    world.wanted = service("two", replicas=2)
    new = world.settle().latest
    world.order = RolloutOrder(ID, old, new, "ann", world.now)
    status = world.settle()
    assert (status.target, status.stable, status.latest) == (old, old, new)
    assert status.why == f"undone by ann: {old} in place of {new}"
    assert len(world.names(old)) == 2 and not world.names(new)
    world.wanted = service("three", replicas=2)
    status = world.settle()
    assert status.target == status.latest not in (old, new)


def test_an_order_for_a_generation_that_nobody_knows_means_nothing() -> None:
    world = ServiceWorld(service(replicas=1))
    latest = world.settle().latest
    world.order = RolloutOrder(ID, "0" * 8, latest, "ann", world.now)
    assert world.settle().target == latest


def test_a_generation_that_had_no_replicas_is_not_what_one_goes_back_to() -> None:
    world = ServiceWorld(service(replicas=2))
    good = world.settle().latest
    world.wanted = service("bad", replicas=0)
    assert world.settle().phase == "complete" and world.state.stable == good
    world.wanted = service("bad", replicas=2)
    world.step()
    world.now += 600
    status = world.step()
    assert (status.phase, status.target) == ("failed", good)


def test_traffic_keeps_several_generations_each_with_its_part() -> None:
    world = ServiceWorld(service(replicas=4))
    old = world.settle().latest
    traffic = [{"generation": "stable", "weight": 90}, {"generation": "latest", "weight": 10}]
    world.wanted = service("two", replicas=4, traffic=traffic)
    status = world.settle()
    assert (status.phase, status.stable) == ("split", old)
    assert (len(world.names(old)), len(world.names(status.latest))) == (3, 1)
    weights = {each.session: each.weight for each in status.replicas}
    assert weights[f"Session/p/web-{status.latest}-1"] == 10
    assert sum(weights.values()) == pytest.approx(100) and set(weights.values()) == {10, 30}
    world.wanted = service("two", replicas=4)
    status = world.settle()
    assert (status.phase, status.stable, len(world.names(status.latest))) == ("complete", status.latest, 4)


def test_paused_updates_begin_nothing_and_repair_what_is_missing() -> None:
    world = ServiceWorld(service(replicas=3))
    old = world.settle().latest
    world.wanted = service("two", replicas=3, update={"paused": True})
    status = world.settle()
    assert (status.phase, len(world.names(old)), len(world.existing)) == ("paused", 3, 3)
    del world.existing[world.names(old)[0]]
    world.settle()
    assert len(world.names(old)) == 3 == len(world.existing)
    world.wanted = service("two", replicas=3)
    assert world.settle().phase == "complete" and not world.names(old)


def test_who_has_to_leave_its_node_is_replaced_first_and_goes_then() -> None:
    world = ServiceWorld(service(replicas=3))
    world.settle()
    name = world.names()[0]
    known = world.existing[name].recorded
    world.put(name, known.document, known.digest, node="n2")
    world.ready()
    world.leaving = {"n2": "drained"}
    status = world.step()
    assert name in world.existing and len(world.existing) == 4 and status.phase == "progressing"
    assert "node n2 is drained" in status.why
    assert available(world) == 3
    world.ready()
    assert world.settle().phase == "complete"
    assert name not in world.existing and len(world.existing) == 3


def test_those_of_a_lost_node_are_made_anew_at_once_and_given_up_when_all_are_ready_again() -> None:
    world = ServiceWorld(service(replicas=3))
    world.settle()
    before = world.names()
    for name in before[:2]:
        known = world.existing[name].recorded
        part = replace(known.placement.kernels[0], node="n9") if known.placement else None
        assert known.placement is not None and part is not None
        placement = replace(known.placement, kernels=(part,))
        world.existing[name] = replace(
            world.existing[name], away={"k": "n9"}, recorded=replace(known, placement=placement)
        )
        world.readiness.pop(name)
    world.step()
    assert world.names() == before, "it may come back in a moment"
    world.leaving = {"n9": "not reached"}
    world.step()
    assert len(world.existing) == 5 and set(before) <= set(world.existing)
    world.step()
    assert set(before) <= set(world.existing), "the new ones are not ready"
    world.ready()
    world.readiness = {name: one for name, one in world.readiness.items() if name not in before[:2]}
    world.step()
    assert len(world.existing) == 3 and not set(before[:2]) & set(world.existing)


def test_a_replica_that_fails_its_liveness_probe_is_started_again() -> None:
    world = ServiceWorld(service(replicas=2))
    world.settle()
    name = world.names()[1]
    world.readiness[name] = Readiness(False, world.now, "no answer", dead="no answer to 3 probes")
    _, rollouts = world.expand()
    assert {each: why.text for each, why in rollouts.restarts.items()} == {name: "no answer to 3 probes"}


def test_where_not_all_is_seen_nothing_is_begun() -> None:
    world = ServiceWorld(service(replicas=3))
    old = world.settle().latest
    world.wanted = service("two", replicas=5)
    world.complete = False
    desired, rollouts = world.expand()
    assert set(desired.resources) == set(world.names(old)) and not rollouts.restarts


def test_replicas_that_nobody_has_asked_yet_are_not_taken_away() -> None:
    """A loop that has just begun knows nothing of them."""
    world = ServiceWorld(service(replicas=3))
    old = world.settle().latest
    world.wanted = service("two", replicas=3)
    world.readiness.clear()
    world.step()
    assert len(world.names(old)) == 3


def test_a_store_that_is_lost_takes_no_replica_along() -> None:
    world = ServiceWorld(service(replicas=3))
    latest = world.settle().latest
    before = dict(world.existing)
    world.state = replace(world.state, generations=(), stable="", failed={})
    assert world.settle().phase == "complete"
    assert world.existing.keys() == before.keys() and world.state.stable == latest


def test_generations_that_nobody_needs_are_forgotten() -> None:
    world = ServiceWorld(service(replicas=1, history=2))
    for number in range(5):
        world.wanted = service(f"program-{number}", replicas=1, history=2)
        world.settle()
    status: ServiceStatus = world.settle()
    assert [each.name for each in world.state.generations][-1] == status.latest
    assert len(world.state.generations) == 2


def test_the_same_is_the_same_object() -> None:
    """What follows from what is desired is not worked out anew."""
    world = ServiceWorld(service(replicas=3))
    world.settle()
    first, _ = world.expand()
    again, _ = world.expand()
    assert [first.resources[i] is again.resources[i] for i in first.resources] == [True] * 3


def test_moments_of_a_clock_that_was_wrong_are_not_waited_for() -> None:
    """By which a replica was started, or ended, years from now."""
    world = ServiceWorld(service(replicas=1))
    name = next(iter(world.settle().replicas)).session
    later = world.now + 20 * 365 * 86_400
    world.phase(name, "TERMINATED", finished_at=later, started_at=later - 5)
    world.step()
    assert world.existing[name].recorded.generation == 2
    world.wanted = service("bad", replicas=1)
    bad = world.step().latest
    (made,) = world.names(bad)
    world.phase(made, "RUNNING", started_at=later)
    world.now += 700
    assert world.step().phase == "failed"


def test_a_replica_whose_kernels_are_gone_is_not_ready_whatever_it_answered() -> None:
    world = ServiceWorld(service(replicas=2))
    name = sorted(each.session for each in world.settle().replicas)[0]
    world.existing[name] = replace(world.existing[name], missing=("k",), reason="main1 is gone")
    world.wanted = service("two", replicas=2)
    status = world.step()
    assert [each.session for each in status.replicas if each.phase == "leaving"] == [name]
