"""How many examples property tests draw outside of campaigns."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness.examples import CAMPAIGNS, pytest_collection_modifyitems, share_of


class _Config:
    def __init__(self, part: str) -> None:
        self.part = part

    def getoption(self, name: str, default: str) -> str:
        return self.part


class _Item:
    def __init__(self, function: object) -> None:
        self.function, self.marks = function, list[str]()

    def add_marker(self, mark: object) -> None:
        self.marks.append(mark.name)  # type: ignore[attr-defined]


def drawn(part: str, examples: int) -> tuple[int, list[str]]:
    """How often a property test with two sets of parameters is tried, and how it is marked."""
    tried = []

    @settings(max_examples=examples, database=None)
    @given(st.integers())
    def test(number: int) -> None:
        tried.append(number)

    items = [_Item(test), _Item(test), _Item(share_of)]
    pytest_collection_modifyitems(_Config(part), items)  # type: ignore[arg-type]
    test()
    return len(tried), [mark for item in items for mark in item.marks]


def test_a_quarter_but_ten_at_least() -> None:
    assert [share_of(each) for each in (4, 10, 30, 100, 200)] == [4, 10, 10, 25, 50]
    assert drawn("not real", 100) == (25, [])


def test_campaigns_draw_all() -> None:
    assert drawn(CAMPAIGNS, 100) == (100, ["campaign", "campaign"])
