"""Probes are a part of their generation: what runs is judged by its own, and wrong ones make way."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reconciler.plan.services.replicas import MOST_ENDS
from reconciler.values.services.probes import probes_of
from reconciler.values.services.readiness import Readiness
from tests.reconciler.services.world import ServiceWorld, service

RULES: dict[str, Any] = {"replicas": 3, "update": {"deadline": "60s"}}
RIGHT = {"http": {"port": "http", "path": "/up"}}
WRONG = {"http": {"port": "http", "path": "/wrong"}}


def answer_probes(world: ServiceWorld) -> None:
    """Each replica by what its own document says that it is asked."""
    for name, existing in world.existing.items():
        probes = probes_of(existing.recorded.document)
        asked = probes.readiness or probes.liveness
        good = asked is None or (asked.http is not None and asked.http.path == "/up")
        dead = "" if good or probes.liveness is None else "it failed its liveness probe"
        known = world.readiness[name]
        if (known.ready, known.dead) != (good, dead):
            world.readiness[name] = Readiness(good, world.now, "" if good else "404", dead)


@pytest.mark.parametrize("before", [None, RIGHT])
@pytest.mark.parametrize("probe", ["readiness", "liveness"])
def test_a_wrong_probe_is_rolled_back_and_takes_no_replica_along(
    probe: str, before: dict[str, Any] | None
) -> None:
    world = ServiceWorld(service(**RULES, **({probe: before} if before else {})))
    old = world.settle().latest
    serving = world.names(old)
    world.wanted = service(**RULES, **{probe: WRONG})
    for _ in range(40):
        status = world.step()
        answer_probes(world)
        world.now += 10
        assert [each for each in serving if world.readiness[each].ready] == serving
    assert (status.phase, status.target, status.stable) == ("failed", old, old)
    assert world.names() == serving and status.latest != old
    world.wanted = service(**RULES, **{probe: RIGHT})
    for _ in range(40):
        status = world.step()
        answer_probes(world)
    assert status.phase == "complete" and status.stable == status.latest
    assert world.names() == world.names(status.latest)


def test_an_undone_probe_is_asked_no_more() -> None:
    world = ServiceWorld(service(**RULES, readiness=RIGHT))
    old = world.settle().latest
    world.wanted = service(**RULES, readiness=WRONG)
    world.step()
    made = next(name for name in world.existing if name not in world.names(old))
    asked = probes_of(world.existing[made].recorded.document).readiness
    assert asked is not None and asked.http is not None and asked.http.path == "/wrong"
    world.wanted = service(**RULES, readiness=RIGHT)
    assert world.settle().stable == old and made not in world.existing


def test_one_that_is_complete_is_not_given_up_however_often_it_was_started_again() -> None:
    world = ServiceWorld(service(**RULES, liveness=RIGHT))
    latest = world.settle().latest
    name = world.names()[0]
    found = world.existing[name]
    world.existing[name] = replace(found, recorded=replace(found.recorded, generation=MOST_ENDS + 1))
    world.readiness[name] = Readiness(False, world.now, "404", "it failed its liveness probe")
    assert latest not in world.expand()[1].states["Service/p/web"].failed
