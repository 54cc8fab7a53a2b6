"""What was applied and ordered, and what came of one apply."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bai.queries.history import newest_entries
from bai.render.humanize import iso_time
from bai.render.resources.history import outcome_text
from bai.web.panel.plans.parts import Part
from bai.web.panel.views.paging import Paging
from reconciler.sources.commit_facts import CommitFacts
from schemas.problems.errors.command import CommandError

if TYPE_CHECKING:
    from bai.web.pass_view import PassView
    from reconciler.values.records import Audit, FieldChange, JournalEntry

MOST_ACTIONS = 100
"""Actions of an apply that one page tells."""
_NO_ACTIONS = ("failed", "override")
"""What the audit says beside the actions of an apply."""
_NOBODY = CommitFacts()


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """One apply, or one order. `apply`: its name, empty for an order; `before`: the commit that was applied
    before it, where it is another one."""

    at: str
    what: str
    actor: str
    commit: str
    plan: str
    apply: str
    failed: int
    before: str
    author: str
    subject: str


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """The newest first; `tail`: how many were asked for."""

    rows: tuple[HistoryRow, ...]
    tail: int


@dataclass(frozen=True, slots=True)
class AppliedStep:
    """One step of an action; `seconds` is None where its end is not known."""

    name: str
    state: str
    seconds: float | None
    error: str


@dataclass(frozen=True, slots=True)
class AppliedAction:
    """What was done to one resource, and why. `error`: why it did not come to its end."""

    verb: str
    resource: str
    why: str
    error: str
    changes: tuple[FieldChange, ...]
    seconds: float | None
    steps: tuple[AppliedStep, ...]


@dataclass(frozen=True, slots=True)
class ApplyPage:
    """`cause`: how much was to be done, in words. `overrides`: resources for which a policy did not count,
    and why. `has_steps`: whether the store still knows them."""

    name: str
    at: str
    actor: str
    commit: str
    commit_facts: CommitFacts
    plan: str
    cause: str
    actions: Part[AppliedAction]
    failed: int
    seconds: float | None
    overrides: tuple[tuple[str, str], ...]
    has_steps: bool


def history_page(view: PassView, tail: int) -> HistoryPage:
    """For who sees all projects. Raises StoreError."""
    found = newest_entries(view, tail)
    facts = view.commit_facts(each.commit for each in found)
    rows, before = list[HistoryRow](), ""
    for each in reversed(found):
        author, subject = facts.get(each.commit, _NOBODY)
        other = before if each.apply and before != each.commit else ""
        rows.append(
            HistoryRow(
                iso_time(each.at), outcome_text(each), each.actor, each.commit, each.plan, each.apply,
                each.failed, other, author, subject,
            )
        )  # fmt: skip
        before = each.commit if each.apply else before
    return HistoryPage(tuple(reversed(rows)), tail)


def apply_page(view: PassView, name: str, number: int = 1) -> ApplyPage:
    """For who sees all projects. `number`: of the page of its actions. Raises StoreError, and CommandError
    where there was none."""
    store = view.store
    told = store.audit(view.cluster, apply=name, verb="apply", limit=1) if store is not None else ()
    if store is None or not told:
        raise CommandError(why="there was no such apply", hint="")
    begun, counts = told[0], store.count_actions(view.cluster, [name]).get(name, {})
    total = sum(count for verb, count in counts.items() if verb not in _NO_ACTIONS)
    paging = Paging.of(total, number, MOST_ACTIONS)
    entries = store.actions(view.cluster, name, paging.first, MOST_ACTIONS)
    journal = store.journal(view.cluster, name, [each.resource for each in entries])
    times = store.journal_times(view.cluster, name)
    return ApplyPage(
        name=begun.apply,
        at=iso_time(begun.at),
        actor=begun.actor,
        commit=begun.commit,
        commit_facts=view.commit_facts([begun.commit]).get(begun.commit, _NOBODY),
        plan=begun.plan,
        cause=begun.cause,
        actions=Part(tuple(_actions(entries, journal)), paging.number, paging.count, total),
        failed=counts.get("failed", 0),
        seconds=times[1] - times[0] if times else None,
        overrides=tuple((each.resource, each.cause) for each in entries if each.verb == "override"),
        has_steps=times is not None,
    )


def _actions(entries: Iterable[Audit], journal: Iterable[JournalEntry]) -> Iterator[AppliedAction]:
    all_ = list(entries)
    errors = {each.resource: each.cause for each in all_ if each.verb == "failed"}
    steps = _steps(journal)
    for each in all_:
        if each.verb in _NO_ACTIONS:
            continue
        mine = steps.get(each.resource, [])
        known = [seconds for step in mine if (seconds := step.seconds) is not None]
        yield AppliedAction(
            each.verb, each.resource, each.cause, errors.get(each.resource, ""), each.changes,
            sum(known) if known else None, tuple(mine),
        )  # fmt: skip


def _steps(journal: Iterable[JournalEntry]) -> Mapping[str, list[AppliedStep]]:
    """By action, in their order."""
    begun: dict[tuple[str, str], float] = {}
    found: dict[str, dict[str, AppliedStep]] = {}
    for each in journal:
        steps = found.setdefault(each.action, {})
        if each.state == "intent":
            begun[each.action, each.step] = each.at
            steps[each.step] = AppliedStep(each.step, "not known", None, "")
            continue
        since = begun.get((each.action, each.step))
        seconds = max(0.0, each.at - since) if since is not None else None
        steps[each.step] = AppliedStep(each.step, each.state, seconds, each.error)
    return {action: list(steps.values()) for action, steps in found.items()}
