"""What pages show of a change that somebody asks for."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bai.render.humanize import clean, plural
from bai.render.plan.review_sections import session_outcome
from bai.web.auth.roles import Principal
from bai.web.panel.plans.planning_queue import Progress
from bai.web.panel.proposals.desk import ClusterDesk, OpenedDocuments, PushWay
from bai.web.panel.proposals.preview import (
    Preview,
    ProblemRow,
    blank_preview,
    problem_preview,
    problem_rows,
    session_preview,
)
from bai.web.panel.proposals.requests import ChangeRequest, PreparedChange
from bai.web.panel.proposals.session_form import (
    FormField,
    document_text,
    fields_of,
    form_fields,
    with_fields,
)
from reconciler.guards.judge import violation_text
from reconciler.proposals.edits import parse_one
from schemas.kinds.session_template import SessionTemplate
from schemas.kinds.tenancy import Project
from schemas.loading.documents import claimed_identity
from schemas.problems.errors.base import BaiError
from schemas.problems.errors.command import CommandError, NoSuchResource
from schemas.problems.errors.server import TooMuchPlanned
from schemas.values.resource_ref import identity_of, ref_of

if TYPE_CHECKING:
    from bai.web.pass_view import PassView
    from planner.model.types import Reason
    from reconciler.gitops.submit import FileChange
    from reconciler.review.values import Review

MOST_NAMES = 50
"""Sessions of a kind that are named."""
LONGEST_DRAFT = 5000
"""Characters of an address with a draft in it: what browsers, proxies and this server take."""


@dataclass(frozen=True, slots=True)
class NewPage:
    """A session that somebody writes. `text`: its document as YAML; `values`: of the fields; `preview` is
    None until it was asked for."""

    fields: Mapping[str, FormField]
    values: Mapping[str, str]
    text: str
    choices: Mapping[str, tuple[str, ...]]
    templates: tuple[tuple[str, str], ...]
    preview: Preview | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a plan with the change would do beside what it would do anyway. `moved`: session, what becomes of
    it, where, why; `others`: how many of other projects'."""

    summary: str
    refused: tuple[str, ...]
    moved: tuple[tuple[str, str, str, str], ...]
    started: tuple[str, ...]
    waiting: tuple[tuple[str, str], ...]
    others: int


@dataclass(frozen=True, slots=True)
class ChangePage:
    """A change before it is made. `file` and `diff` (sign and text of a line) are empty where it cannot be:
    `problems` say why; `text`: the YAML to copy. `progress`: how far it is, where its `outcome` is not there
    yet."""

    asked: ChangeRequest
    title: str
    identity: str
    way: PushWay
    base: str = ""
    file: str = ""
    diff: tuple[tuple[str, str], ...] = ()
    text: str = ""
    problems: tuple[ProblemRow, ...] = ()
    preview: Preview | None = None
    outcome: Outcome | None = None
    progress: Progress | None = None


# Drafts


def start_text(
    view: PassView, desk: ClusterDesk, who: Principal, *, template: str, project: str, copied: str
) -> str:
    """What a new session begins with: a copy, a template's, or the least. Raises NoSuchResource."""
    projects = _projects(view)
    project = project or (projects[0] if len(projects) == 1 else "")
    if copied:
        ref = ref_of(copied)
        identity = identity_of("Session", ref.name, ref.project)
        text = desk.newest(who).documents.text(require_seen(view, identity))
        return document_text(with_fields(parse_one(text), {"name": f"{ref.name}-copy"}))
    values = {"name": "", "project": project, "template": template}
    if not template:
        values |= {"type": "batch", "command": "sleep 600", "cpu": "1", "memory": "1GiB"}
    return document_text(with_fields(None, values))


def new_page(view: PassView, text: str, preview: Preview | None = None) -> NewPage:
    """`text` may be no YAML at all: then the fields are empty."""
    try:
        value = parse_one(text) if text.strip() else None
    except BaiError:
        value = None
    values = fields_of(value)
    choices = {"project": _projects(view), "group": tuple(sorted(view.desired.groups))}
    return NewPage(form_fields(), values, text, choices, _templates(view), preview)


def posted_text(form: Mapping[str, str]) -> str:
    """The document of a form that was sent: its YAML where somebody has changed that, else its fields put
    into what it was. Raises BaiError where the YAML is none."""
    text, shown = (form.get(name, "").replace("\r\n", "\n") for name in ("text", "shown"))
    if text.strip() != shown.strip():
        return text
    value = parse_one(text) if text.strip() else None
    made = with_fields(value, {name: form[name] for name in form_fields() if name in form})
    return text if made == value else document_text(made)


def _projects(view: PassView) -> tuple[str, ...]:
    found = (each for each in view.repository.of(Project) if view.sees(each.identity))
    return tuple(sorted(each.name for each in found))


def _templates(view: PassView) -> tuple[tuple[str, str], ...]:
    """Name and project of those that the viewer's sessions may come from."""
    found = (each for each in view.repository.of(SessionTemplate))
    seen = ((each.name, each.metadata.project or "") for each in found if view.sees(each.identity))
    return tuple(sorted(seen))


# Changes


def require_seen(view: PassView, identity: str) -> str:
    """Raises NoSuchResource where there is none that the viewer sees."""
    if identity not in view.desired.digests or not view.sees(identity):
        raise NoSuchResource(what="document", name=clean(identity), hint="")
    return identity


def _require_node(view: PassView, identity: str) -> None:
    """Machines of a pool have no document of their own, which is then said."""
    there = any(node.identity == identity for node in view.desired.nodes)
    if not there or not view.sees(identity):
        raise NoSuchResource(what="node", name=clean(identity), hint="")


def require_own_project(view: PassView, text: str) -> str:
    """The identity that a new document claims. Raises CommandError for another project's, whether there is
    such a project or not."""
    identity = claimed_identity(parse_one(text))
    if identity and not view.whole and not view.sees(identity):
        # Without its name, which would only be taken out of the message if there is such a project.
        raise CommandError(why="its project is not yours", hint="metadata.project names one that is")
    return identity


def draft_preview(view: PassView, desk: ClusterDesk, who: Principal, text: str) -> Preview:
    """What the session of this text would get."""
    try:
        blank = blank_preview(parse_one(text))
        if blank is not None:
            return blank
        require_own_project(view, text)
        opened = desk.newest(who)
        prepared = desk.prepare(opened, ChangeRequest("add", text=text), who)
        return _planned_preview(view, desk, who, opened, prepared)
    except BaiError as error:
        return problem_preview(view, error)


def _planned_preview(
    view: PassView, desk: ClusterDesk, who: Principal, opened: OpenedDocuments, prepared: PreparedChange
) -> Preview:
    head = desk.desired_with(opened, prepared.change, who)
    return session_preview(view, view.plan, desk.preview(head, view.actual), prepared.identity)


def change_page(
    view: PassView, desk: ClusterDesk, who: Principal, asked: ChangeRequest, patience: float | None = None
) -> ChangePage:
    """`patience`: seconds in which what it would do is waited for. Raises NoSuchResource, TooMuchPlanned;
    everything else that is wrong is told on the page, with the text to copy."""
    title = f"{asked.action} {asked.target}".strip()
    try:
        identity = require_own_project(view, asked.text) if asked.action == "add" else asked.target
    except BaiError as error:
        return ChangePage(asked, title, "", PushWay("off"), text=asked.text, problems=_rows(view, error))
    if asked.action == "node":
        _require_node(view, asked.target)
    elif asked.action != "add":
        require_seen(view, asked.target)
    way = desk.way(who, asked, identity)
    try:
        opened = desk.newest(who)
        if asked.needs_text:
            return ChangePage(asked, title, identity, way, text=opened.documents.text(identity))
        if asked.needs_value:
            return ChangePage(asked, title, identity, way)
        prepared = desk.prepare(opened, asked, who)
    except BaiError as error:
        return ChangePage(asked, title, identity, way, text=asked.text, problems=_rows(view, error))
    change, problems = prepared.change, tuple[ProblemRow, ...]()
    preview, outcome, progress = None, None, None
    try:
        if asked.action == "add":
            preview = _planned_preview(view, desk, who, opened, prepared)
        else:
            review = desk.review(opened, change, view, who, patience)
            if isinstance(review, Progress):
                progress = review
            else:
                outcome = _outcome(view, review)
    except TooMuchPlanned:
        raise
    except BaiError as error:
        problems = _rows(view, error)
    return ChangePage(
        asked, prepared.title, prepared.identity, way, opened.commit, change.name, tuple(diff_rows(change)),
        (change.after or b"").decode("utf-8", "replace"), problems, preview, outcome, progress,
    )  # fmt: skip


def _rows(view: PassView, error: BaiError) -> tuple[ProblemRow, ...]:
    return tuple(problem_rows(view, error))


def diff_rows(change: FileChange) -> Iterator[tuple[str, str]]:
    """Sign (`+`, `-`, `@` or a space) and text of each line."""
    before, after = (
        (data or b"").decode("utf-8", "replace").splitlines() for data in (change.before, change.after)
    )
    for line in list(difflib.unified_diff(before, after, lineterm="", n=3))[2:]:
        yield line[:1], line[1:]


def _outcome(view: PassView, review: Review) -> Outcome:
    seen = [each for each in review.disruptions if view.sees(each.session)]
    started = [each for each in review.admitted if view.sees(each)]
    waits = [each for each in review.plan.waits if view.sees(each.session)]
    others = len(review.disruptions) + len(review.admitted) + len(review.plan.waits)
    others -= len(seen) + len(started) + len(waits)
    return Outcome(
        summary=_summary(review),
        refused=tuple(view.redact([clean(violation_text(one)) for one in review.plan.violations])),
        moved=tuple(
            (each.session, each.effect, view.redact(clean(session_outcome(each, review.nodes))),
             view.redact(clean(each.why)))
            for each in seen[:MOST_NAMES]
        ),
        started=tuple(started[:MOST_NAMES]),
        waiting=tuple((each.session, _why(view, each.reasons)) for each in waits[:MOST_NAMES]),
        others=others,
    )  # fmt: skip


def _why(view: PassView, reasons: Sequence[Reason]) -> str:
    return view.redact(clean(reasons[0].message)) if reasons else ""


def _summary(review: Review) -> str:
    effects = [each.effect for each in review.disruptions]
    counts = [(effects.count(name), name) for name in ("stopped", "pushed out", "moved")]
    parts = [f"{plural(count, 'running session')} {name}" for count, name in counts if count]
    parts += [f"{plural(len(review.admitted), 'session')} started"] if review.admitted else []
    parts += [f"{plural(len(review.plan.waits), 'session')} made to wait"] if review.plan.waits else []
    return ", ".join(parts) if parts else "no running session is touched, and nobody waits longer"
