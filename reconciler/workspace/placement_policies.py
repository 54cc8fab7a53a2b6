"""Queue and selection policies by the names that groups use; strangers' come through entry points and are
loaded only when named."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from planner.model.types import Outcome, Snapshot
from reconciler.plan.context import Place
from reconciler.values.state import Desired

if TYPE_CHECKING:
    from planner.place import Policies

QUEUE, SELECTION = "bai.queue", "bai.selection"


def placer(desired: Desired) -> Place:
    """`place` with the policies that the groups of this cluster name; an unknown name is left to the
    planner, which says so."""
    groups = desired.groups.values()
    return partial(_place, {group.spec.queue for group in groups}, {group.spec.selection for group in groups})


def _place(queues: set[str], selections: set[str], snapshot: Snapshot) -> Outcome:
    from planner.place import place

    return place(snapshot, policies(queues, selections))


def policies(queues: Iterable[str], selections: Iterable[str]) -> Policies:
    """The built-in policies and, of the installed ones, those that are named."""
    from planner.place import BUILT_IN, Policies

    return Policies(
        queue={**_loaded(QUEUE, set(queues) - set(BUILT_IN.queue)), **BUILT_IN.queue},
        selection={**_loaded(SELECTION, set(selections) - set(BUILT_IN.selection)), **BUILT_IN.selection},
    )


def installed() -> dict[str, list[str]]:
    """`queue` and `selection` → the names of all policies that there are, without loading one."""
    from planner.place import BUILT_IN

    known = {"queue": (QUEUE, BUILT_IN.queue), "selection": (SELECTION, BUILT_IN.selection)}
    return {
        kind: sorted({*built_in, *(entry.name for entry in entry_points(group=group))})
        for kind, (group, built_in) in known.items()
    }


def _loaded(group: str, names: Iterable[str]) -> dict[str, Any]:
    wanted = set(names)
    if not wanted:
        return {}
    return {entry.name: entry.load() for entry in entry_points(group=group) if entry.name in wanted}
