"""Projects: who is in them, what they hold and wait for, and what they may."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bai.render.humanize import clean
from bai.web.panel.administration.quotas import QuotaRow, quota_rows
from bai.web.panel.administration.tally import Hours, Tally, hours_held, owner_of, tallies
from bai.web.panel.views.paging import Paging, kept
from reconciler.values.documents.session_subjects import project_domain
from schemas.kinds.tenancy import Project, User
from schemas.problems.errors.command import NoSuchResource
from schemas.values.resource_ref import identity_of, ref_of

if TYPE_CHECKING:
    from bai.render.resources.status import SessionFacts
    from bai.web.pass_view import PassView


@dataclass(frozen=True, slots=True)
class ProjectRow:
    """One project; `quotas`: those that limit it and nobody else. `is_written`: it has a document."""

    name: str
    is_written: bool
    domain: str
    members: int
    now: Tally
    hours: Hours
    quotas: tuple[QuotaRow, ...]

    @property
    def fullest(self) -> QuotaRow | None:
        """The quota of which most is used."""
        limited = [each for each in self.quotas if each.fullest is not None]
        return max(limited, key=lambda each: each.fullest.fill if each.fullest else 0, default=None)


@dataclass(frozen=True, slots=True)
class ProjectList:
    """`q`: what is asked for, in names."""

    rows: tuple[ProjectRow, ...]
    paging: Paging
    q: str

    def query(self, **changes: object) -> dict[str, object]:
        """Of a link that keeps what is asked for but for these changes."""
        return kept({"q": self.q} | changes)


@dataclass(frozen=True, slots=True)
class MemberRow:
    """A user whose document names the project (`is_member`), or who has sessions in it."""

    name: str
    is_member: bool
    is_active: bool
    now: Tally


@dataclass(frozen=True, slots=True)
class ProjectPage:
    """`description`: of its document. `others`: quotas that count its sessions together with those of more
    projects, for who sees everything."""

    row: ProjectRow
    description: str
    members: tuple[MemberRow, ...]
    others: tuple[QuotaRow, ...]


def project_list(view: PassView, q: str = "", page: int = 1) -> ProjectList:
    """Those that the viewer sees. Raises what looking raises."""
    (now,), text = tallies(view, _project_of), q.strip().lower()
    names = [name for name in _names(view, now) if text in name.lower()]
    paging = Paging.of(len(names), page)
    quotas, hours, members = quota_rows(view), hours_held(view, "project"), _members(view)
    rows = tuple(
        _row(view, name, now, hours, quotas, len(members[name])) for name in names[paging.first : paging.last]
    )
    return ProjectList(rows, paging, q)


def project_page(view: PassView, name: str) -> ProjectPage:
    """Raises NoSuchResource, and what looking raises."""
    now, by_owner = tallies(
        view, _project_of, lambda facts: owner_of(view, facts) if _project_of(facts) == name else None
    )
    if name not in _names(view, now):
        raise NoSuchResource(what="project", name=clean(name), hint="")
    quotas, members = quota_rows(view), _members(view)[name]
    row = _row(view, name, now, hours_held(view, "project"), quotas, len(members))
    document = view.repository.resources.get(identity_of("Project", name))
    return ProjectPage(
        row=row,
        description=clean(document.spec.description) if isinstance(document, Project) else "",
        members=_member_rows(view, members, by_owner),
        others=tuple(
            each
            for each in quotas
            if (each.subject_kind, each.subject) in {("domain", row.domain), ("cluster", view.cluster)}
        ),
    )


def _project_of(facts: SessionFacts) -> str:
    return ref_of(facts.id).project


def _names(view: PassView, now: Mapping[str, Tally]) -> list[str]:
    """Projects with a document or with sessions."""
    written = {each.name for each in view.repository.of(Project) if view.sees(each.identity)}
    return sorted(written | (now.keys() - {""}))


def _members(view: PassView) -> Mapping[str, list[User]]:
    """By project, the users whose documents name it."""
    found: dict[str, list[User]] = defaultdict(list)
    for user in view.repository.of(User):
        for project in user.spec.projects:
            found[project].append(user)
    return found


def _row(
    view: PassView,
    name: str,
    now: Mapping[str, Tally],
    hours: Mapping[str, Hours],
    quotas: Iterable[QuotaRow],
    members: int,
) -> ProjectRow:
    return ProjectRow(
        name=name,
        is_written=isinstance(view.repository.resources.get(identity_of("Project", name)), Project),
        domain=project_domain(name, view.repository),
        members=members,
        now=now.get(name, Tally()),
        hours=hours.get(name, Hours()),
        quotas=tuple(each for each in quotas if (each.subject_kind, each.subject) == ("project", name)),
    )


def _member_rows(view: PassView, members: Iterable[User], now: Mapping[str, Tally]) -> tuple[MemberRow, ...]:
    users = {each.name: each for each in members}
    names = sorted(users.keys() | (now.keys() - {""}))
    return tuple(
        MemberRow(
            name=name,
            is_member=name in users,
            is_active=name not in users or users[name].spec.active or not view.sees(users[name].identity),
            now=now.get(name, Tally()),
        )
        for name in names
    )
