"""What a session that somebody is writing would get, or why it would wait: planned as any other one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bai.render.humanize import clean
from bai.render.nodes.picture import HeldPlacement
from bai.render.plan.placements import kernel_cores, kernel_devices, kernel_memory
from bai.render.plan.usage import SlotUsageRow, slot_rows
from bai.web.panel.views.node_drawing import DrawnNode, draw_node
from bai.web.panel.views.queue_page import WaitRow, wait_row
from reconciler.guards.judge import violation_text
from schemas.loading.documents import kind_of
from schemas.problems.errors.base import BaiError
from schemas.problems.errors.repository import InvalidRepository

if TYPE_CHECKING:
    from bai.web.pass_view import PassView
    from planner.model.types import NodeInfo, Placement
    from reconciler.review.preview import PlanPreview
    from reconciler.values.plan import Plan

MOST_PICTURES = 4
MOST_ROWS = 16
MOST_PROBLEMS = 20


@dataclass(frozen=True, slots=True)
class ProblemRow:
    """What is wrong with a document. `place` is `file:line:column`, empty where it has none."""

    place: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class GivenRow:
    """What one container would get."""

    name: str
    node: str
    cores: str
    memory: str
    devices: str


@dataclass(frozen=True, slots=True)
class Preview:
    """`headline` in a sentence. `is_begun`: False as long as what must be filled in is not; then, and with
    `problems`, nothing else is known. `given` where it would start, `wait`
    where not; `pushed_out`: running sessions that would make room, each with why."""

    headline: str
    problems: tuple[ProblemRow, ...] = ()
    given: tuple[GivenRow, ...] = ()
    more_given: int = 0
    pictures: tuple[DrawnNode, ...] = ()
    choice: str = ""
    wait: WaitRow | None = None
    pushed_out: tuple[tuple[str, str], ...] = ()
    refused: tuple[str, ...] = ()
    quotas: tuple[SlotUsageRow, ...] = ()
    is_begun: bool = True


def blank_preview(value: object) -> Preview | None:
    """Of a document in which name or project are still to be filled in; None where they are."""
    metadata = value.get("metadata") if isinstance(value, dict) else None
    given = metadata if isinstance(metadata, dict) else {}
    missing = [f"a {name}" for name in ("name", "project") if given.get(name) in (None, "")]
    if not missing or kind_of(value) != "Session":
        return None
    return Preview(f"Give it {' and '.join(missing)}: what it would get is shown then", is_begun=False)


def problem_preview(view: PassView, error: BaiError) -> Preview:
    """Of what is no valid document."""
    return Preview("This is not valid yet", tuple(problem_rows(view, error)))


def problem_rows(view: PassView, error: BaiError) -> Iterator[ProblemRow]:
    """What is wrong with documents was judged as their author knows it: nothing is taken out of that, which
    would tell what there is (`drafts`)."""
    if not isinstance(error, InvalidRepository):
        yield ProblemRow("", view.redact(clean(error.message)), view.redact(clean(error.hint)))
        return
    for each in error.problems[:MOST_PROBLEMS]:
        words = f"{each.path}: {each.message}" if each.path else each.message
        yield ProblemRow(clean(str(each.place)), clean(words), clean(each.hint))


def session_preview(view: PassView, before: Plan, after: PlanPreview, identity: str) -> Preview:
    """`before`: the plan without the change."""
    placement = after.placed.placements.get(identity)
    wait = after.placed.waits.get(identity)
    refused = [clean(violation_text(one)) for one in after.violations if identity in one.resources]
    common = Preview(
        "Nothing would be done",
        wait=wait_row(view, wait) if wait is not None and placement is None else None,
        pushed_out=tuple(_pushed_out(view, before, after)),
        refused=tuple(view.redact(refused)),
        quotas=tuple(_quota_rows(view, before, after, identity)),
    )
    if placement is None:
        return replace(common, headline="It would wait") if common.wait is not None else common
    nodes = list(dict.fromkeys(kernel.node for kernel in placement.kernels))
    rows = tuple(_given_rows(placement, after.context.nodes))
    headline = f"It would start on {', '.join(nodes[:MOST_PICTURES])}"
    headline += f" and {len(nodes) - MOST_PICTURES} more nodes" if len(nodes) > MOST_PICTURES else ""
    return replace(
        common,
        headline=f"{headline}, but a policy refuses it" if refused else headline,
        given=rows[:MOST_ROWS],
        more_given=max(0, len(rows) - MOST_ROWS),
        pictures=tuple(_pictures(view, after, nodes[:MOST_PICTURES], identity)),
        choice=view.redact(clean(placement.choice.score)) if placement.choice else "",
    )


def _pushed_out(view: PassView, before: Plan, after: PlanPreview) -> Iterator[tuple[str, str]]:
    """Who makes room only with the change, and why they may be pushed out."""
    known = {wait.session for wait in before.waits if any(each.code == "preempted" for each in wait.reasons)}
    for identity in sorted(after.placed.evictions.keys() - known):
        yield view.redact(identity), view.redact(clean(after.placed.evictions[identity].why))


def _given_rows(placement: Placement, infos: Mapping[str, NodeInfo]) -> Iterator[GivenRow]:
    for kernel in placement.kernels:
        devices = clean(kernel_devices(kernel, infos.get(kernel.node)))
        yield GivenRow(
            clean(kernel.kernel), kernel.node, kernel_cores(kernel), kernel_memory(kernel), devices
        )


def _pictures(view: PassView, after: PlanPreview, nodes: list[str], identity: str) -> Iterator[DrawnNode]:
    """The nodes with all who are there once the plan is carried out."""
    held = [
        HeldPlacement(one.placement, new=one.request.id == identity)
        for one in after.after.running
        if any(kernel.node in nodes for kernel in one.placement.kernels)
    ]
    for node in nodes:
        if node in after.context.nodes:
            yield draw_node(view.cluster, after.context.nodes[node], held, view.sees, identity)


def _quota_rows(view: PassView, before: Plan, after: PlanPreview, identity: str) -> Iterator[SlotUsageRow]:
    """Those that it takes of; of who sees some projects only, their own ones."""
    known = {(use.quota, use.subject): use.after for use in before.quotas}
    project = identity.split("/")[1]
    for use in after.placed.outcome.quotas:
        if view.whole or use.subject == f"project {project}":
            used = known.get((use.quota, use.subject), use.before)
            rows = slot_rows(f"{clean(use.quota)} ({clean(use.subject)})", use.limit, used, use.after)
            yield from (row for row in rows if row.changed)
