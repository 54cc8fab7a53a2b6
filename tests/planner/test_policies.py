"""The built-in policies are those that pyproject.toml registers, and are loaded as a stranger's are."""

from __future__ import annotations

import tomllib
from pathlib import Path

from planner.policies import BUILT_IN_QUEUE, BUILT_IN_SELECTION, built_in_policies
from reconciler.workspace.placement_policies import load_policies

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def test_built_in_policies_are_the_registered_entry_points() -> None:
    groups = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["entry-points"]
    assert groups["bai.queue"] == BUILT_IN_QUEUE
    assert groups["bai.selection"] == BUILT_IN_SELECTION


def test_entry_points_give_what_the_planner_has_built_in() -> None:
    assert load_policies(["fifo", "unknown"], ["concentrated"]) == built_in_policies()
