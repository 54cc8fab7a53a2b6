"""Queue and selection policies by the names that groups use, built-in ones and strangers' alike through entry
points; strangers' are loaded only when named."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

from planner.model.types import Outcome, Snapshot
from reconciler.plan.context import Planner
from reconciler.values.state import Desired

if TYPE_CHECKING:
    from planner.policies import Policies

QUEUE, SELECTION = "bai.queue", "bai.selection"


def planner_for(desired: Desired) -> Planner:
    """`place` with the policies that the groups of this cluster name; an unknown name is left to the
    planner, which says so."""
    groups = desired.groups.values()
    return partial(_place, {group.spec.queue for group in groups}, {group.spec.selection for group in groups})


def _place(queues: set[str], selections: set[str], snapshot: Snapshot) -> Outcome:
    from planner.place import place

    return place(snapshot, load_policies(queues, selections))


def load_policies(queues: Iterable[str], selections: Iterable[str]) -> Policies:
    """The built-in policies and, of the installed ones, those that are named."""
    from planner.policies import BUILT_IN_QUEUE, BUILT_IN_SELECTION, Policies

    return Policies(
        queue=_load(QUEUE, BUILT_IN_QUEUE, queues), selection=_load(SELECTION, BUILT_IN_SELECTION, selections)
    )


def policy_names() -> dict[str, list[str]]:
    """`queue` and `selection` → the names of all policies that there are, without loading one."""
    from planner.policies import BUILT_IN_QUEUE, BUILT_IN_SELECTION

    known = {"queue": (QUEUE, BUILT_IN_QUEUE), "selection": (SELECTION, BUILT_IN_SELECTION)}
    return {
        kind: sorted({*built_in, *(entry.name for entry in entry_points(group=group))})
        for kind, (group, built_in) in known.items()
    }


def _load(group: str, built_in: Mapping[str, str], names: Iterable[str]) -> dict[str, Any]:
    """All built-in policies and the named strangers'; the metadata of installed packages is searched only for
    these."""
    found = [EntryPoint(name, target, group) for name, target in built_in.items()]
    strangers = set(names) - built_in.keys()
    if strangers:
        found += [entry for entry in entry_points(group=group) if entry.name in strangers]
    return {entry.name: entry.load() for entry in found}
