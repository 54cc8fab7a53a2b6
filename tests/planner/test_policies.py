"""The built-in policies are those that pyproject.toml registers, and are loaded as a stranger's are."""

from __future__ import annotations

import tomllib
from pathlib import Path

from planner.policies import built_in_policies
from reconciler.workspace.placement_policies import load_policies
from schemas.plugins.entry_points import BUILT_IN

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def test_built_in_policies_are_the_registered_entry_points() -> None:
    groups = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["entry-points"]
    assert groups == {group: entries for group, entries in BUILT_IN.items() if entries}


def test_entry_points_give_what_the_planner_has_built_in() -> None:
    assert load_policies(["fifo", "unknown"], ["concentrated"]) == built_in_policies()
