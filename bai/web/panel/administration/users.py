"""Users: whoever has a document, owns sessions, or has a quota; with what they hold and wait for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bai.queries.usage import user_name
from bai.render.humanize import clean
from bai.web.panel.administration.quotas import QuotaRow, quota_rows
from bai.web.panel.administration.tally import Hours, Tally, hours_held, owner_of, tallies
from bai.web.panel.views.paging import Paging, kept
from schemas.kinds.tenancy import User
from schemas.problems.errors.command import NoSuchResource
from schemas.values.resource_ref import identity_of, ref_of

if TYPE_CHECKING:
    from bai.render.resources.status import SessionFacts
    from bai.web.pass_view import PassView


@dataclass(frozen=True, slots=True)
class UserRow:
    """One user. Of the document (`is_written`), which is for who sees everything, are `full_name`, `email`
    and `is_active`; `projects`: those it names, and those with sessions of theirs, that the viewer sees."""

    name: str
    is_written: bool
    full_name: str
    email: str
    is_active: bool
    projects: tuple[str, ...]
    now: Tally
    hours: Hours


@dataclass(frozen=True, slots=True)
class UserList:
    """`q`, `project`: what is asked for; `projects_known`: what may be."""

    rows: tuple[UserRow, ...]
    paging: Paging
    q: str
    project: str
    projects_known: tuple[str, ...]

    def query(self, **changes: object) -> dict[str, object]:
        """Of a link that keeps what is asked for but for these changes."""
        return kept({"q": self.q, "project": self.project} | changes)


@dataclass(frozen=True, slots=True)
class UserPage:
    """`by_project`: what the user holds and waits for in each."""

    row: UserRow
    by_project: tuple[tuple[str, Tally], ...]
    quotas: tuple[QuotaRow, ...]


def user_list(view: PassView, q: str = "", project: str = "", page: int = 1) -> UserList:
    """Those of whom the viewer sees something. Raises what looking raises."""
    everybody, text = _user_rows(view), q.strip().lower()
    chosen = [
        row
        for row in everybody
        if (not project or project in row.projects)
        and (not text or any(text in each.lower() for each in (row.name, row.full_name, row.email)))
    ]
    paging = Paging.of(len(chosen), page)
    known = tuple(sorted({each for row in everybody for each in row.projects}))
    return UserList(tuple(chosen[paging.first : paging.last]), paging, q, project, known)


def user_page(view: PassView, name: str) -> UserPage:
    """`name`: or an e-mail address, as sessions may name their owner. Raises NoSuchResource, and what looking
    raises."""
    wanted = name
    name = user_name(view.repository, wanted)
    row = next((each for each in _user_rows(view) if each.name == name), None)
    if row is None:
        raise NoSuchResource(what="user", name=clean(wanted), hint="")
    (by_project,) = tallies(
        view, lambda facts: ref_of(facts.id).project if owner_of(view, facts) == name else None
    )
    return UserPage(
        row=row,
        by_project=tuple(sorted(by_project.items())),
        quotas=tuple(
            each for each in quota_rows(view) if (each.subject_kind, each.subject) == ("user", name)
        ),
    )


def _user_rows(view: PassView) -> list[UserRow]:
    projects: dict[str, set[str]] = defaultdict(set)
    written: dict[str, User] = {}
    for user in view.repository.of(User):
        seen = {each for each in user.spec.projects if view.sees(identity_of("Project", each))}
        if view.sees(user.identity):
            written[user.name] = user
        if seen or user.name in written:
            projects[user.name] |= seen

    def key(facts: SessionFacts) -> str:
        name = owner_of(view, facts)
        projects[name].add(ref_of(facts.id).project)
        return name

    (now,), hours = tallies(view, key), hours_held(view, "user")
    for row in quota_rows(view):
        if row.subject_kind == "user":
            projects[row.subject] |= set()
    names = sorted((projects.keys() | hours.keys()) - {""})
    return [_row(name, written, projects, now, hours) for name in names]


def _row(
    name: str,
    written: Mapping[str, User],
    projects: Mapping[str, set[str]],
    now: Mapping[str, Tally],
    hours: Mapping[str, Hours],
) -> UserRow:
    user = written.get(name)
    return UserRow(
        name=name,
        is_written=user is not None,
        full_name=clean(user.spec.full_name) if user else "",
        email=clean(user.spec.email or "") if user else "",
        is_active=user is None or user.spec.active,
        projects=tuple(sorted(projects.get(name, ()))),
        now=now.get(name, Tally()),
        hours=hours.get(name, Hours()),
    )
