"""The policies that one plan is made with, by the names that groups use.

`place` is given policies by its caller: `reconciler.workspace.placement_policies` loads what the groups of a
cluster name, plugins among them; `built_in_policies` is for simulated clusters, tests and benchmarks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from planner.queue.base import QueuePolicy
from planner.selection.base import SelectionFactory
from schemas.plugins.entry_points import BUILT_IN, QUEUE, SELECTION, load_entry_points


@dataclass(frozen=True, slots=True)
class Policies:
    """Policies by name."""

    queue: Mapping[str, QueuePolicy]
    selection: Mapping[str, SelectionFactory]


@cache
def built_in_policies() -> Policies:
    """All built-in policies."""
    return Policies(
        queue=load_entry_points(QUEUE, BUILT_IN[QUEUE]),
        selection=load_entry_points(SELECTION, BUILT_IN[SELECTION]),
    )
