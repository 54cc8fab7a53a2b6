"""Which effects start: a slow node holds up no other one."""

from __future__ import annotations

from collections import Counter
from typing import Any, cast

from reconciler.apply.effect_slots import LONG, startable
from reconciler.apply.progress import QueuedEffect
from reconciler.apply.steps import Step

PARALLEL = 8


def effects(node: str, count: int, kind: Any = "create", *, began: float = 0.0) -> list[QueuedEffect]:
    step = Step(kind, "Session/p/s", f"{node}-k")
    return [QueuedEffect(step, cast("Any", None), node=node, began=began) for _ in range(count)]


def started(due: list[QueuedEffect], running: list[QueuedEffect], now: float = 0.0) -> Counter[str]:
    return Counter(each.node for each in startable(due, running, PARALLEL, now))


def test_one_node_has_all_places_where_nothing_else_is_due() -> None:
    assert started(effects("slow", 20), []) == {"slow": 8}
    assert started(effects("slow", 20), effects("slow", 3)) == {"slow": 5}


def test_one_node_leaves_places_to_others() -> None:
    assert started([*effects("slow", 20), *effects("n1", 1), *effects("n2", 20)], []) == {
        "slow": 2,
        "n1": 1,
        "n2": 2,
    }
    assert started(effects("slow", 20), [*effects("slow", 2), *effects("n1", 1)]) == {}


def test_what_runs_for_long_takes_nobodys_place() -> None:
    slow = [each for n in range(8) for each in effects(f"slow{n}", 1)]
    assert started(effects("n1", 20), slow, now=LONG - 1) == {}
    assert started(effects("n1", 20), slow, now=LONG) == {"n1": 2}
    many = [each for n in range(20) for each in effects(f"n{n}", 1)]
    assert sum(started(many, slow, now=LONG).values()) == 8
    twice = [*slow, *(each for n in range(8) for each in effects(f"more{n}", 1))]
    assert started(many, twice, now=LONG) == {}, "no more than as many again"


def test_what_is_of_no_one_node_is_not_held_back() -> None:
    assert sum(started([*effects("", 6), *effects("n1", 1)], []).values()) == 7


def test_images_leave_room_and_go_last() -> None:
    due = [*effects("n1", 6, "pull"), *effects("n2", 1), *effects("n3", 2, "pull"), *effects("n4", 1)]
    assert [(each.node, each.step.kind) for each in startable(due, [], PARALLEL, 0.0)] == [
        ("n2", "create"),
        ("n4", "create"),
        ("n1", "pull"),
        ("n1", "pull"),
    ]
