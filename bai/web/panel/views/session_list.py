"""Sessions, a hundred a page: chosen by phase, project, labels and name, in an order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, Field

from bai.queries.models import SortOrder
from bai.queries.resources import owner_names, session_document
from bai.render.humanize import clean, format_milli, iso_time, size
from bai.render.resources.session_filter import (
    PHASES,
    SessionFilter,
    choose_rows,
    parse_phases,
    parse_selector,
    sort_rows,
)
from bai.render.resources.status import session_facts, session_row, wait_line
from bai.web.panel.views.paging import Paging, kept
from schemas.values.resource_ref import ref_of

if TYPE_CHECKING:
    from bai.render.resources.status import SessionFacts
    from bai.web.pass_view import PassView


Text = Annotated[str, Field(max_length=300)]


class SessionListQuery(BaseModel, frozen=True):
    """What is asked for, as the address says it; empty asks nothing. `phase` and `selector` as `bai get` has
    them; `owner`: a user by name or address; `q`: what stands in `project/name`, in any case."""

    phase: Text = ""
    project: Text = ""
    owner: Text = ""
    selector: Text = ""
    q: Text = ""
    sort: SortOrder = ""
    page: Annotated[int, Field(ge=1, le=100_000)] = 1


@dataclass(frozen=True, slots=True)
class ListedSession:
    """One row. `since` as ISO 8601: when it started, else when it began to wait; `about`: result and reason,
    or what it waits for."""

    project: str
    name: str
    phase: str
    group: str
    nodes: str
    cores: str
    memory: str
    gpus: str
    ready: str
    since: str
    about: str


@dataclass(frozen=True, slots=True)
class PhaseCount:
    """A phase and how many sessions are in it, of those that are else asked for; `word`: as the query has
    it."""

    phase: str
    word: str
    count: int
    chosen: bool


@dataclass(frozen=True, slots=True)
class SessionList:
    """`total`: of all phases."""

    asked: SessionListQuery
    rows: tuple[ListedSession, ...]
    paging: Paging
    phases: tuple[PhaseCount, ...]
    total: int
    projects: tuple[str, ...]

    def query(self, **changes: object) -> dict[str, object]:
        """Of a link that keeps what is asked for but for these changes: on its first page, if it is not one
        of pages."""
        return kept({**self.asked.model_dump(), "page": "", **changes})


def session_list(view: PassView, asked: SessionListQuery) -> SessionList:
    """Raises CommandError for a phase or selector that means nothing, and what looking raises."""
    phases, terms = parse_phases(asked.phase), parse_selector(asked.selector)
    everything = [
        each for each in session_facts(view.actual, view.desired.digests, view.now) if view.sees(each.id)
    ]
    project, text = asked.project, asked.q.strip().lower()
    found = [
        each
        for each in everything
        if (not project or ref_of(each.id).project == project)
        and (not text or text in ref_of(each.id).qualified_name.lower())
    ]

    def document_of(identity: str) -> Mapping[str, object]:
        return session_document(view.desired, view.actual, identity)

    owners = owner_names({asked.owner}, view.repository) if asked.owner else None
    found = choose_rows(found, SessionFilter(terms=terms, owners=owners), document_of)
    chosen = [each for each in found if not phases or each.phase in phases]
    paging = Paging.of(len(chosen), asked.page)
    page = sort_rows(chosen, asked.sort)[paging.first : paging.last]
    return SessionList(
        asked=asked,
        rows=tuple(_listed(view, each) for each in page),
        paging=paging,
        phases=_count_phases(found, phases),
        total=len(found),
        projects=tuple(sorted({ref_of(each.id).project for each in everything})),
    )


def phase_word(phase: str) -> str:
    """As `parse_phases` reads it."""
    return phase.lower().replace(" ", "-")


def _count_phases(found: Sequence[SessionFacts], chosen: frozenset[str]) -> tuple[PhaseCount, ...]:
    """In the order that sessions go through them; also of those that are asked for and have none."""
    counts = Counter(each.phase for each in found)
    return tuple(
        PhaseCount(phase, phase_word(phase), counts[phase], phase in chosen)
        for phase in PHASES
        if counts[phase] or phase in chosen
    )


def _listed(view: PassView, facts: SessionFacts) -> ListedSession:
    row, ref = session_row(facts), ref_of(facts.id)
    wait = view.waits.get(facts.id) if facts.phase == "PENDING" else None
    return ListedSession(
        project=ref.project,
        name=ref.name,
        phase=row.phase,
        group=clean(row.group or (wait.group if wait else "")),
        nodes=clean(row.nodes),
        cores=format_milli(sum(kernel.cpu_milli for kernel in row.kernels)) if row.kernels else "",
        memory=size(sum(kernel.memory for kernel in row.kernels)) if row.kernels else "",
        gpus=format_milli(row.gpu_milli) if row.gpu_milli else "",
        ready=row.ready,
        since=iso_time(facts.since),
        about=view.redact(row.about or wait_line(wait)),
    )
