"""The policies that one plan is made with, by the names that groups use, and which of them are built in.

`place` is given policies by its caller: `reconciler.workspace.placement_policies` loads what the groups of a
cluster name, plugins among them; `built_in_policies` is for simulated clusters, tests and benchmarks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

from planner.queue.base import QueuePolicy
from planner.selection.base import SelectionFactory

BUILT_IN_QUEUE = {
    "fifo": "planner.queue.fifo:fifo",
    "lifo": "planner.queue.lifo:lifo",
    "drf": "planner.queue.drf:drf",
    "fair-share": "planner.queue.fair_share:fair_share",
}
BUILT_IN_SELECTION = {
    "concentrated": "planner.selection.concentrated:Concentrated",
    "dispersed": "planner.selection.dispersed:Dispersed",
    "roundrobin": "planner.selection.roundrobin:RoundRobin",
    "least-fragmentation": "planner.selection.least_fragmentation:LeastFragmentation",
}
"""Name → entry point, as in pyproject.toml: found without a search through the metadata of every package."""


@dataclass(frozen=True, slots=True)
class Policies:
    """Policies by name."""

    queue: Mapping[str, QueuePolicy]
    selection: Mapping[str, SelectionFactory]


@cache
def built_in_policies() -> Policies:
    """All built-in policies."""
    return Policies(
        queue={name: _load(target) for name, target in BUILT_IN_QUEUE.items()},
        selection={name: _load(target) for name, target in BUILT_IN_SELECTION.items()},
    )


def _load(target: str) -> Any:
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)
