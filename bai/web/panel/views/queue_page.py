"""Who waits: by resource group in the order of its queue, with all that holds each of them back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

from bai.render.humanize import clean, iso_time, slot_amounts
from bai.render.plan.waits import wait_lines
from bai.web.panel.views.paging import Paging, kept
from schemas.values.resource_ref import ref_of

if TYPE_CHECKING:
    from bai.web.pass_view import PassView
    from planner.model.types import Wait


@dataclass(frozen=True, slots=True)
class WaitRow:
    """A session that waits. `position`: its place in its group's queue, 0 for who cannot be queued; `since`
    and `latest` as ISO 8601, empty where that is not known; `asks`: what of all its containers together;
    `reasons`: codes and sentences; `freed_by`: what would free it first; `notes`: what else is known."""

    project: str
    name: str
    position: int
    since: str
    asks: str
    reasons: tuple[tuple[str, str], ...]
    freed_by: str
    latest: str
    notes: tuple[str, ...]
    is_held: bool


@dataclass(frozen=True, slots=True)
class QueueGroup:
    """Those of one resource group on this page; `waiting`: how many wait in it, whoever they are."""

    name: str
    waiting: int
    rows: tuple[WaitRow, ...]


@dataclass(frozen=True, slots=True)
class QueuePage:
    """`group` and `project`: what is asked for, empty for all; `groups_known` and `projects_known`: what may
    be."""

    groups: tuple[QueueGroup, ...]
    paging: Paging
    group: str
    project: str
    groups_known: tuple[str, ...]
    projects_known: tuple[str, ...]

    def query(self, **changes: object) -> dict[str, object]:
        """Of a link that keeps what is asked for but for these changes."""
        return kept({"group": self.group, "project": self.project} | changes)


def queue_page(view: PassView, group: str = "", project: str = "", page: int = 1) -> QueuePage:
    """The waits of the last plan that the viewer sees, of one group and project where these are given. Raises
    what looking raises."""
    seen = sorted((wait for wait in view.waits.values() if view.sees(wait.session)), key=_place)
    chosen = [
        wait
        for wait in seen
        if (not group or wait.group == group) and (not project or ref_of(wait.session).project == project)
    ]
    paging = Paging.of(len(chosen), page)
    return QueuePage(
        groups=tuple(_groups(view, chosen[paging.first : paging.last])),
        paging=paging,
        group=group,
        project=project,
        groups_known=tuple(sorted({wait.group for wait in seen})),
        projects_known=tuple(sorted({ref_of(wait.session).project for wait in seen})),
    )


def _place(wait: Wait) -> tuple[str, bool, int, str]:
    return wait.group, wait.position == 0, wait.position, wait.session


def _groups(view: PassView, waits: Iterable[Wait]) -> Iterator[QueueGroup]:
    counts: dict[str, int] = {}
    for wait in view.waits.values():
        counts[wait.group] = counts.get(wait.group, 0) + 1
    for name, those in groupby(waits, key=lambda wait: wait.group):
        yield QueueGroup(name, counts[name], tuple(wait_row(view, wait) for wait in those))


def wait_row(view: PassView, wait: Wait) -> WaitRow:
    """One wait in words, as far as its viewer may know them."""
    ref, item = ref_of(wait.session), view.actual.existing.get(wait.session)
    others = wait_lines(replace(wait, reasons=(), freed_by="", latest=None))
    return WaitRow(
        project=ref.project,
        name=ref.name,
        position=wait.position,
        since=iso_time(item.recorded.enqueued_at) if item else "",
        asks=asked_amounts(view, wait.session),
        reasons=tuple((reason.code, view.redact(clean(reason.message))) for reason in wait.reasons),
        freed_by=view.redact(clean(wait.freed_by)),
        latest=iso_time(wait.latest),
        notes=tuple(view.redact(others)),
        is_held=wait.is_held,
    )


def asked_amounts(view: PassView, identity: str) -> str:
    """What a session's document asks for, all its containers together: `cpu 16, mem 64GiB`."""
    session, total = view.desired.sessions().get(identity), dict[str, int]()
    for container in session.spec.containers if session else ():
        for slot, amount in container.resources.slots.items():
            total[slot] = total.get(slot, 0) + amount
    return clean(slot_amounts(total))
