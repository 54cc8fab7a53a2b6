"""How many examples property tests draw: a share of those that they name, and all of them in
`make campaigns`, where each of these tests is a campaign."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import is_hypothesis_test, settings

CAMPAIGNS = "campaign"
"""The expression over marks that chooses the part that draws all."""
SHARE, LEAST = 0.25, 10


def share_of(examples: int) -> int:
    """Who names few draws them all."""
    return max(round(examples * SHARE), min(examples, LEAST))


def seeds(usual: int, *, count: int, beyond: pytest.MarkDecorator) -> list[object]:
    """Of a test that chance decides: so many as find a planted bug several times over, and the others up to a
    count with a mark."""
    return [pytest.param(n, marks=beyond if n >= usual else ()) for n in range(count)]


def pytest_collection_modifyitems(config: pytest.Config, items: Sequence[pytest.Item]) -> None:
    of_properties = [each for each in items if is_hypothesis_test(getattr(each, "function", None))]
    if config.getoption("markexpr", "") == CAMPAIGNS:
        for item in of_properties:
            item.add_marker(pytest.mark.campaign)
    else:
        # Parameters make several items of one test.
        for test in {getattr(each, "function", None) for each in of_properties}:
            change_examples(test, share_of)


def change_examples(test: object, count: Callable[[int], int]) -> None:
    """How many a property test draws, by how many it names; schemathesis counts its own."""
    own = getattr(test, "_hypothesis_internal_use_settings", None)
    if isinstance(own, settings):
        changed = settings(own, max_examples=count(own.max_examples))
        test._hypothesis_internal_use_settings = changed  # type: ignore[attr-defined]
