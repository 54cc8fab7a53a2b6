"""Which generation `bai rollout undo` goes back to: by when generations were complete, not by when they were
wanted first."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bai.queries.services.undo import choose_undo
from bai.render.resources.services import ServiceFacts
from reconciler.values.records import Recorded
from reconciler.values.services.state import RolloutOrder, ServiceState
from reconciler.values.state import Existing
from schemas.problems.errors.command import CommandError
from tests.reconciler.services.world import ID, ServiceWorld, service


def facts(world: ServiceWorld, state: ServiceState | None = None) -> ServiceFacts:
    record = Recorded(ID, "c", 1, "", {}, service=state or world.state)
    (status,) = world.expand()[1].statuses
    return ServiceFacts(
        id=ID, now=world.now, written=True, item=Existing(ID, record, ""), status=status, nodes={}, apps=(),
        order=world.order,
    )  # fmt: skip


def undo(world: ServiceWorld) -> str:
    """As it is ordered; gives where the service goes."""
    found = choose_undo(facts(world))
    order = RolloutOrder(ID, found.generation, found.latest, "ada", world.now)
    world.order = None if found.ends_order else order
    return found.generation


def follow(world: ServiceWorld, *words: str) -> list[str]:
    found = []
    for word in words:
        world.wanted = service(word, replicas=2)
        found.append(world.settle().latest)
    return found


def test_a_document_that_came_back_is_undone_to_what_was_complete_before_it() -> None:
    """one, two, one again: by when they were first wanted, nothing was before one."""
    world = ServiceWorld(service())
    one, two, again = follow(world, "one", "two", "one")
    assert one == again and undo(world) == two
    assert world.settle().stable == two


def test_an_undo_is_undone() -> None:
    world = ServiceWorld(service())
    one, two, three = follow(world, "one", "two", "three")
    for expected in (two, three, two, three):
        assert undo(world) == expected
        assert world.settle().stable == expected
        assert (world.order is None) == (expected == three)
    assert world.state.completed == (one, two, three)


def test_an_undo_is_undone_before_it_is_complete() -> None:
    world = ServiceWorld(service())
    _, two, three = follow(world, "one", "two", "three")
    assert undo(world) == two
    world.step()
    assert undo(world) == three and world.order is None


def test_what_was_never_complete_is_no_generation_to_go_back_to() -> None:
    world = ServiceWorld(service())
    (one,) = follow(world, "one")
    world.wanted = service("two", replicas=2)
    world.step()
    world.wanted = service("three", replicas=2)
    world.step()
    assert undo(world) == one


def test_from_one_that_was_given_up_it_goes_to_the_last_that_was_complete() -> None:
    world = ServiceWorld(service())
    _, two = follow(world, "one", "two")
    world.wanted = service("bad", replicas=2, update={"deadline": "10s"})
    world.step()
    world.now += 60
    assert world.step().phase == "failed" and undo(world) == two


def test_a_generation_that_is_forgotten_is_none_to_go_back_to() -> None:
    world = ServiceWorld(service())
    (one,) = follow(world, "one")
    for word in ("two", "three"):
        world.wanted = service(word, replicas=2, history=1)
        two = world.settle().latest
    assert one not in world.state.completed and len(world.state.completed) == 1
    assert world.state.completed == (two,)
    with pytest.raises(CommandError, match="was complete before"):
        undo(world)


def test_a_store_that_knows_the_stable_one_alone_goes_back_to_it() -> None:
    world = ServiceWorld(service())
    (one,) = follow(world, "one")
    world.wanted = service("two", replicas=2)
    world.step()
    assert choose_undo(facts(world, replace(world.state, completed=()))).generation == one
