"""A plan in which nothing is to be done, remembered between commands: who asks again, with nothing changed,
is told the same without loading a document or planning anything.

It counts for exactly what it was made of: the bytes of all files that were read, each question to the store's
file with the digest of its answer, the code, and the time until which the plan says that it holds. Only a
plan for which nobody was asked is remembered (`--offline`), and only where these are all that it rests on.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import isfinite
from typing import TYPE_CHECKING, Any

from reconciler.sources.document_index import DocumentIndex
from reconciler.store.database.asked_questions import AskedQuestion
from reconciler.store.reader import FileReader
from reconciler.values.encoding.plan_json import idle_plan_from_values, idle_plan_values
from reconciler.workspace.store_access import StoreAccess, open_store_access
from schemas.problems.errors.store import StoreError

if TYPE_CHECKING:
    from reconciler.sources.source import Source
    from reconciler.values.plan import Plan
    from reconciler.values.state import Desired
    from reconciler.workspace.workspace import Workspace

_CODE = ("planner", "providers", "reconciler", "schemas")
_FAR = 253402300800.0
"""The year 10000: until then holds what the time does not end."""


@dataclass(frozen=True, slots=True)
class KnownIdlePlan:
    """One that was remembered, without its actions, which do nothing; and the store that it counts for, to be
    closed."""

    plan: Plan
    access: StoreAccess


@dataclass(frozen=True)
class IdlePlans:
    """Of one cluster, planned offline and as a whole. What is not known has to be planned."""

    source: Source
    cluster: str | None
    """As it was asked for."""

    @cached_property
    def _index(self) -> DocumentIndex | None:
        return DocumentIndex.of_user(self.source, f"idle plan {self.cluster or ''} {self.source.repo}", _CODE)

    def find(self, state: str | None) -> KnownIdlePlan | None:
        """The plan of what is there now, where it is known; `state` as for a workspace. Raises what opening a
        store raises."""
        known = self._index.read() if self._index is not None else None
        access = open_store_access(self.source, self.cluster, state) if known is not None else None
        if known is None or access is None:
            return None
        try:
            plan = _plan_that_holds(known, access)
        except (KeyError, TypeError, ValueError, StoreError):
            plan = None
        if plan is None:
            access.close()
            return None
        return KnownIdlePlan(plan, access)

    def plan(self, workspace: Workspace, *, sealed: bool = True) -> Plan:
        """The whole plan for which nobody is asked; `sealed` as for `Workspace.plan`. Where nothing is to be
        done, it is remembered, unless it rests on more than is compared by who finds it."""
        workspace.note_questions()
        actual = workspace.actual(offline=True)
        made = workspace.plan(offline=True, actual=actual, sealed=sealed)
        until, asked = workspace.plan_valid_until, workspace.asked_questions
        if self._index is None or asked is None or made.changes or made.made_at >= until:
            return made
        if actual.doubts or workspace.has_profiles or _is_by_the_clock(workspace.desired()):
            return made
        content: dict[str, Any] = {
            "made": made.made_at,
            "until": until if isfinite(until) else _FAR,
            "asked": [dataclasses.asdict(each) for each in asked],
            "plan": idle_plan_values(made),
        }
        again = json.loads(json.dumps(content))
        if again == content and idle_plan_from_values(again["plan"]) == replace(made, actions=()):
            self._index.write(content, workspace.repository, workspace.document_cache)
        return made


def _plan_that_holds(known: Mapping[str, Any], access: StoreAccess) -> Plan | None:
    """None where the time or the store is another one. Raises StoreError, and KeyError, TypeError and
    ValueError for what is no such plan."""
    now = access.clock.now()
    if access.state.path is None or not float(known["made"]) <= now < float(known["until"]):
        return None
    store = access.existing_reader
    if not isinstance(store, FileReader) or not store.answers_as_before(_questions(known["asked"])):
        return None
    return replace(idle_plan_from_values(known["plan"]), made_at=now)


def _is_by_the_clock(desired: Desired) -> bool:
    """Whether how far the planner comes in its time has a say."""
    return any(group.spec.packing == "whole-queue" for group in desired.groups.values())


def _questions(found: Iterable[Mapping[str, Any]]) -> list[AskedQuestion]:
    """Raises TypeError."""
    return [AskedQuestion(**each) for each in found]
