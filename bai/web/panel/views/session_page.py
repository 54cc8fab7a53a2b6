"""A session on one page: where it stands and why, what it was given, and what happened to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bai.queries import explanation
from bai.queries.description import describe_resource
from bai.queries.efficiency import session_efficiency
from bai.queries.facts.node_infos import node_infos
from bai.queries.models import ExplainQuery
from bai.queries.resources import owner_names
from bai.render.analysis.efficiency_report import efficiency_lines
from bai.render.humanize import clean, iso_time, number_ranges
from bai.render.nodes.rows import running_placements
from bai.render.plan.placements import kernel_cores, kernel_devices, kernel_memory
from bai.render.resources.apps import app_place, app_state, openers
from bai.render.resources.document import document_lines
from bai.render.resources.status import UNAPPLIED, session_note
from bai.web.panel.blocks import block_kinds, redacted
from bai.web.panel.views.event_rows import EventRow, event_rows
from bai.web.panel.views.node_drawing import DrawnNode, draw_node
from bai.web.panel.views.node_page import holdings_on
from bai.web.panel.views.phase_line import PhaseLine, phase_line
from bai.web.panel.views.queue_page import WaitRow, asked_amounts, wait_row
from reconciler.values.session_phase import ENDED
from schemas.problems.errors.command import CommandError, NoSuchResource
from schemas.values.resource_ref import identity_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bai.render.resources.describe import Description
    from bai.web.panel.blocks import Block
    from bai.web.pass_view import PassView
    from planner.model.types import KernelPlacement, NodeInfo, Placement
    from providers.base import Observed
    from reconciler.sources.commit_facts import CommitFacts
    from reconciler.values.apps.app import App

MOST_PICTURES = 8
"""Nodes of a session that are drawn."""


@dataclass(frozen=True, slots=True)
class KernelRow:
    """One container, in words: what it was given, and how it is. `exit_code` is None until it has ended."""

    name: str
    node: str
    state: str
    cores: str
    memory: str
    devices: str
    nics: str
    exit_code: int | None
    restarts: int
    reason: str


@dataclass(frozen=True, slots=True)
class AppRow:
    """An app: where it is opened, by whom, and whether it can be. `opens`: whether a browser has any use of
    its URL; `place`: that and what it is for, or why it has none."""

    name: str
    url: str
    place: str
    opens: bool
    state: str
    openers: str
    access: str


@dataclass(frozen=True, slots=True)
class SessionPage:
    """Times as ISO 8601, empty where there is none. `place`: where its document stands, empty where it is
    written no more; `is_changed`: the document is another one than was applied. `choice`: why it is where it
    is, in sentences; `wait`: why it waits. `explanation`: how close each node comes, where that was asked
    for. `efficiency`: what it used of what it was given, where that was measured. `node_count`: its nodes, of
    which `pictures` are the first. `phases`: the time of events, drawn."""

    project: str
    name: str
    phase: str
    note: str
    owner: str
    group: str
    type: str
    priority: str
    asks: str
    generation: int
    is_changed: bool
    is_protected: bool
    place: str
    commit: str
    commit_facts: CommitFacts | None
    enqueued: str
    started: str
    finished: str
    apps: tuple[AppRow, ...]
    kernels: tuple[KernelRow, ...]
    pictures: tuple[DrawnNode, ...]
    node_count: int
    choice: tuple[str, ...]
    wait: WaitRow | None
    explanation: tuple[tuple[str, Block], ...]
    efficiency: tuple[str, ...]
    document: tuple[str, ...]
    events: tuple[EventRow, ...]
    phases: PhaseLine


def session_page(view: PassView, project: str, name: str, *, explain: bool = False) -> SessionPage:
    """`explain`: also how close each node comes, for which all is planned once. Raises NoSuchResource, and
    what looking raises."""
    identity = require_session(view, project, name)
    found, item = describe_resource(view, identity), view.actual.existing.get(identity)
    record = item.recorded if item else None
    placement = record.placement if record else None
    infos = node_infos(view.desired, view.actual) if placement else {}
    nodes = list(dict.fromkeys(kernel.node for kernel in placement.kernels)) if placement else []
    is_over = item is not None and item.phase in ENDED
    session = view.desired.sessions().get(identity)
    spec, commit = _spec(found), record.commit if record else ""
    events = event_rows(view, identity)
    return SessionPage(
        project=project,
        name=name,
        phase=UNAPPLIED if item is None else item.phase,
        note=view.redact(session_note(item)) if item else "",
        owner=_word(spec, "owner") or (record.account.user if record and record.account else ""),
        group=_group(found),
        type=session.spec.type if session else _word(spec, "type"),
        priority=str(session.spec.priority) if session else _word(spec, "priority"),
        asks=asked_amounts(view, identity),
        generation=record.generation if record else 0,
        is_changed=bool(record and found.digest and found.digest != record.digest),
        is_protected=item is not None and item.protected,
        place=found.place,
        commit=commit,
        commit_facts=view.commit_facts([commit]).get(commit) if commit else None,
        enqueued=iso_time(record.enqueued_at) if record else "",
        started=iso_time(record.started_at) if record else "",
        finished=iso_time(item.finished_at) if item else "",
        apps=() if is_over else tuple(map(app_row, found.apps)),
        kernels=tuple(_kernel_rows(view, found, infos)),
        pictures=() if is_over else _pictures(view, identity, nodes[:MOST_PICTURES], infos),
        node_count=len(nodes),
        choice=tuple(view.redact(_choice(placement))),
        wait=wait_row(view, found.wait) if found.wait else None,
        explanation=_explanation(view, identity) if explain else (),
        efficiency=_efficiency(view, identity),
        document=tuple(document_lines(found.document)),
        events=events,
        phases=phase_line(events, view.now),
    )


def require_session(view: PassView, project: str, name: str) -> str:
    """Its identity. Raises NoSuchResource where there is none that the viewer sees."""
    identity = identity_of("Session", name, project)
    there = identity in view.actual.existing or identity in view.desired.digests
    if not (project and name and there and view.sees(identity)):
        raise NoSuchResource(what="session", name=clean(f"{project}/{name}"), hint="")
    return identity


def owns_session(view: PassView, project: str, name: str) -> bool:
    """Whether who looks is the owner that its document names."""
    session = view.desired.sessions().get(identity_of("Session", name, project))
    owner = session.spec.owner if session is not None else None
    return bool(owner) and view.user.lower() in owner_names({str(owner)}, view.repository)


def app_row(app: App) -> AppRow:
    """As pages show it."""
    grpc = app.protocol == "grpc"
    return AppRow(
        name=clean(app.name),
        url=app.url,
        place=f"{app_place(app)}, for gRPC" if app.url and grpc else app_place(app),
        opens=app.url.startswith("http") and not grpc,
        state=app_state(app),
        openers=clean(openers(app)),
        access=app.access,
    )


def _group(found: Description) -> str:
    """Where it was placed, waits, or is to be."""
    placement = found.item.recorded.placement if found.item else None
    if placement is not None:
        return placement.group
    return found.wait.group if found.wait else _word(_spec(found), "resourceGroup")


def _spec(found: Description) -> Mapping[str, object]:
    spec = found.document.get("spec")
    return spec if isinstance(spec, dict) else {}


def _word(spec: Mapping[str, object], name: str) -> str:
    return clean(str(spec.get(name) or ""))


def _kernel_rows(view: PassView, found: Description, infos: Mapping[str, NodeInfo]) -> Iterator[KernelRow]:
    item = found.item
    if item is None:
        return
    seen = {kernel.labels.kernel: kernel for kernel in item.kernels}
    codes = item.exit_codes or item.recorded.exit_codes
    placed = item.recorded.placement.kernels if item.recorded.placement else ()
    for kernel in placed:
        there = seen.get(kernel.kernel)
        code = there.exit_code if there and there.exit_code is not None else codes.get(kernel.kernel)
        yield _kernel_row(view, kernel, there, code, infos)


def _kernel_row(
    view: PassView,
    kernel: KernelPlacement,
    there: Observed | None,
    code: int | None,
    infos: Mapping[str, NodeInfo],
) -> KernelRow:
    return KernelRow(
        name=clean(kernel.kernel),
        node=kernel.node,
        state=there.state if there else "not there",
        cores=kernel_cores(kernel),
        memory=kernel_memory(kernel),
        devices=kernel_devices(kernel, infos.get(kernel.node)),
        nics=clean(number_ranges(kernel.nics)),
        exit_code=code,
        restarts=there.restarts if there else 0,
        reason=view.redact(clean(there.reason)) if there else "",
    )


def _pictures(
    view: PassView, identity: str, nodes: list[str], infos: Mapping[str, NodeInfo]
) -> tuple[DrawnNode, ...]:
    """Its nodes with all that is there."""
    if not nodes:
        return ()
    here = holdings_on(set(nodes), running_placements(view.actual))
    return tuple(
        draw_node(view.cluster, infos[node], here, view.sees, identity) for node in nodes if node in infos
    )


def _choice(placement: Placement | None) -> list[str]:
    """Why it is there, by what was written down when it was placed."""
    choice = placement.choice if placement else None
    if choice is None:
        return []
    lines = [f"{choice.strategy}: {choice.score}"]
    lines += [f"next best: {choice.runner_up}"] if choice.runner_up else []
    return [clean(line) for line in (*lines, choice.detail, choice.connection) if line]


def _explanation(view: PassView, identity: str) -> tuple[tuple[str, Block], ...]:
    return tuple(block_kinds(redacted(view, explanation.answer(view, ExplainQuery(session=identity)))))


def _efficiency(view: PassView, identity: str) -> tuple[str, ...]:
    try:
        found, running, _ = session_efficiency(view, identity)
    except CommandError:
        return ()
    if found.measured_until is None:
        return ()
    return tuple(view.redact(list(efficiency_lines(found, running=running))))
