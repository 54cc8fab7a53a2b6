"""How many examples property tests draw: a share of those that they name, and all of them in
`make campaigns`, where each of these tests is a campaign."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import is_hypothesis_test, settings

CAMPAIGNS = "campaign"
"""The expression over marks that chooses the part that draws all."""
SHARE, LEAST = 0.25, 10


def share_of(examples: int) -> int:
    """Who names few draws them all."""
    return max(round(examples * SHARE), min(examples, LEAST))


def pytest_collection_modifyitems(config: pytest.Config, items: Sequence[pytest.Item]) -> None:
    of_properties = [each for each in items if is_hypothesis_test(getattr(each, "function", None))]
    if config.getoption("markexpr", "") == CAMPAIGNS:
        for item in of_properties:
            item.add_marker(pytest.mark.campaign)
    else:
        for test in {
            getattr(each, "function", None) for each in of_properties
        }:  # one of each with parameters
            _draw_a_share(test)


def _draw_a_share(test: Any) -> None:
    own = getattr(test, "_hypothesis_internal_use_settings", None)
    if isinstance(own, settings):  # schemathesis counts its own
        test._hypothesis_internal_use_settings = settings(own, max_examples=share_of(own.max_examples))
