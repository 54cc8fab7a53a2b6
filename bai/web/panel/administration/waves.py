"""The provisioning of nodes: profiles and who follows them, which nodes are next, and what is held back."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bai.render.humanize import clean, iso_time
from bai.web.panel.administration.nodes import Standing, standing_of
from bai.web.panel.views.paging import Paging, kept
from reconciler.plan.nodes.profile_status import profile_status

if TYPE_CHECKING:
    from bai.web.pass_view import PassView

MOST_HELD_BACK = 200


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """A profile and its nodes; `standings`: how many stand how against it."""

    name: str
    nodes: int
    standings: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class TurnRow:
    """A node whose turn comes: in which wave (1: what the last pass set out to do), who has to leave it
    first, and how many tasks of its roles would change something; None where they were not asked, `unsure`
    then says why where they could not say."""

    wave: int
    name: str
    standing: Standing
    leaves: tuple[str, ...]
    tasks: int | None
    unsure: str


@dataclass(frozen=True, slots=True)
class FailedRow:
    """A node whose provisioning failed or was not finished; `since` as ISO 8601."""

    name: str
    profile: str
    since: str
    why: str


@dataclass(frozen=True, slots=True)
class WavesPage:
    """`most`: how many nodes may be out of use at a time; `waves`: how many there are; `held_back`: nodes
    that cannot be provisioned, and why, the first of `held_count`; `problem`: why nothing can be provisioned
    from here."""

    profiles: tuple[ProfileRow, ...]
    turns: tuple[TurnRow, ...]
    paging: Paging
    waves: int
    most: int
    held_back: tuple[tuple[str, str], ...]
    held_count: int
    failed: tuple[FailedRow, ...]
    problem: str

    def query(self, **changes: object) -> dict[str, object]:
        """Of a link to another page."""
        return kept(changes)


def waves_page(view: PassView, page: int = 1) -> WavesPage:
    """As the last pass planned it, for who sees everything. Raises what looking raises."""
    rollout, status = view.plan.rollout, view.actual.provision_status
    waves = (rollout.wave, *rollout.later) if rollout and rollout.wave else ()
    order = [(number, node) for number, wave in enumerate(waves, start=1) for node in wave]
    paging = Paging.of(len(order), page)
    waits = rollout.waits if rollout else ()
    return WavesPage(
        profiles=tuple(_profiles(view)),
        turns=tuple(_turn(view, number, node) for number, node in order[paging.first : paging.last]),
        paging=paging,
        waves=len(waves),
        most=rollout.most if rollout else 0,
        held_back=tuple((each.node, clean(each.why)) for each in waits[:MOST_HELD_BACK]),
        held_count=len(waits),
        failed=tuple(_failed(view)),
        problem=clean(status.problem) if status else "",
    )


def _profiles(view: PassView) -> Iterator[ProfileRow]:
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for node in view.desired.nodes:
        standing = standing_of(view, node.name)
        if standing.profile:
            found[standing.profile][standing.kind] += 1
    for name, kinds in sorted(found.items()):
        yield ProfileRow(name, kinds.total(), tuple(kinds.most_common()))


def _turn(view: PassView, wave: int, node: str) -> TurnRow:
    rollout = view.plan.rollout
    assert rollout is not None
    tasks = rollout.tasks.get(node)
    return TurnRow(
        wave=wave,
        name=node,
        standing=standing_of(view, node),
        leaves=rollout.leaves.get(node, ()),
        tasks=None if tasks is None else len(tasks),
        unsure=clean(rollout.unsure.get(node, "")),
    )


def _failed(view: PassView) -> Iterator[FailedRow]:
    for name, record in sorted(view.actual.provision_records.items()):
        status = profile_status(view.actual, name)
        if status is not None and status.kind in ("failed", "unfinished"):
            why = record.why or status.why
            yield FailedRow(name, clean(status.profile), iso_time(record.at), clean(why))
