"""What a memo gives is what would be made anew, whatever has changed meanwhile."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.model.plan_time import PlanTime
from planner.model.timed_memo import TimedMemo


class Item:
    """An input, which is the same only as itself. Its value waits for `moment`."""

    def __init__(self, number: int, moment: float, passing: bool = False) -> None:
        self.number, self.moment, self.passing = number, moment, passing


Value = tuple[int, int, bool, bool]
KEYS = st.sampled_from("abcd")
ITEMS = st.builds(Item, st.integers(0, 2), st.sampled_from([5.0, 10.0, 1000.0]), st.booleans())
LOOKS = st.tuples(
    st.dictionaries(KEYS, ITEMS),
    st.frozensets(KEYS),
    st.integers(0, 1),
    st.sampled_from([0.0, 1.0, 4.0, -3.0]),
)


def make(items: Mapping[str, Item], around: int, key: str, time: PlanTime) -> Value:
    item = items[key]
    return item.number, around, time.passed(item.moment), item.passing


def look(
    memo: TimedMemo[Value], items: Mapping[str, Item], around: int, time: PlanTime
) -> Mapping[str, Value]:
    def make_one(key: str, own: PlanTime) -> Value:
        return make(items, around, key, own)

    return memo.values(items, (items,), (around,), time, make_one, lasts=lambda value: not value[3])


@settings(max_examples=200)
@given(st.lists(LOOKS, min_size=1, max_size=8))
def test_it_is_what_would_be_made_anew(
    looks: list[tuple[dict[str, Item], frozenset[str], int, float]],
) -> None:
    memo: TimedMemo[Value] = TimedMemo()
    items: dict[str, Item] = {}
    now = 0.0
    for changed, gone, around, later in looks:
        now += later
        items = {key: items.get(key) or each for key, each in sorted((items | changed).items())}
        items = {key: changed.get(key, each) for key, each in items.items() if key not in gone}
        time, anew = PlanTime(now), PlanTime(now)
        found = look(memo, items, around, time)
        expected = {key: make(items, around, key, anew) for key in items}
        assert list(found.items()) == list(expected.items())
        assert time.valid_until == anew.valid_until


def made_of(memo: TimedMemo[str], items: Mapping[str, object], around: object = 0, now: float = 0.0) -> str:
    """The keys whose values were made."""
    made: list[str] = []

    def note(key: str, time: PlanTime) -> str:
        made.append(key)
        return key

    memo.values(items, (items,), (around,), PlanTime(now), note)
    return "".join(made)


def test_only_what_has_changed_is_made() -> None:
    memo: TimedMemo[str] = TimedMemo()
    items: dict[str, object] = {key: object() for key in "abc"}
    assert made_of(memo, items) == "abc"
    assert made_of(memo, dict(items)) == ""
    assert made_of(memo, {**items, "b": object(), "d": object()}) == "bd"
    assert made_of(memo, items) == "b"
    assert made_of(memo, items, around=1) == "abc"
    assert made_of(memo, items, around=1, now=-1.0) == "abc"


def test_what_fails_leaves_what_was_known() -> None:
    memo: TimedMemo[str] = TimedMemo()
    items: dict[str, object] = {key: object() for key in "abc"}
    made_of(memo, items)
    changed = {**items, "b": object()}

    def fail(key: str, time: PlanTime) -> str:
        raise ValueError(key)

    with pytest.raises(ValueError, match=r"^b$"):
        memo.values(changed, (changed,), (0,), PlanTime(0.0), fail)
    assert made_of(memo, changed) == "b"


def test_another_thread_begins_with_what_is_known() -> None:
    memo: TimedMemo[str] = TimedMemo()
    items: dict[str, object] = {key: object() for key in "abc"}
    made_of(memo, items)
    other = memo.fork()
    assert made_of(other, {**items, "c": object()}) == "c"
    assert made_of(memo, items) == ""
