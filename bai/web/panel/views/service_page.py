"""The page of a service: where it is reached, its replicas, its generations and how far an update is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bai.queries.description import describe_resource
from bai.queries.facts.node_infos import node_infos
from bai.render.humanize import clean, iso_time
from bai.render.plan.placements import kernel_devices
from bai.render.plan.services import phase_words, progress_words
from bai.render.resources.document import document_lines
from bai.render.resources.services import (
    ServiceFacts,
    generation_notes,
    order_words,
    service_cells,
    traffic_shares,
)
from bai.web.panel.views.event_rows import EventRow, event_rows
from bai.web.panel.views.session_page import AppRow, app_row
from schemas.problems.errors.command import NoSuchResource
from schemas.values.resource_ref import identity_of, ref_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bai.web.pass_view import PassView
    from planner.model.types import NodeInfo
    from reconciler.sources.commit_facts import CommitFacts
    from reconciler.values.services.status import ReplicaStatus


@dataclass(frozen=True, slots=True)
class ReplicaRow:
    """`name`: of its session; `nodes` and `devices` empty where it is nowhere yet; `share`: of requests, in
    percent, empty where it gets none."""

    name: str
    phase: str
    nodes: tuple[str, ...]
    devices: str
    generation: str
    share: str
    why: str


@dataclass(frozen=True, slots=True)
class GenerationRow:
    """`since` as ISO 8601; `failed`: why it was given up."""

    name: str
    commit: str
    since: str
    share: str
    notes: str
    failed: str


@dataclass(frozen=True, slots=True)
class ServicePage:
    """`phase`: of its rollout, empty before a plan; `state`: that in words; `scale`: what an autoscaler
    holds, and why; `order`: what somebody wants in place of its document."""

    project: str
    name: str
    phase: str
    state: str
    ready: str
    progress: str
    scale: str
    order: str
    place: str
    commit: str
    commit_facts: CommitFacts | None
    apps: tuple[AppRow, ...]
    replicas: tuple[ReplicaRow, ...]
    generations: tuple[GenerationRow, ...]
    document: tuple[str, ...]
    events: tuple[EventRow, ...]


def service_page(view: PassView, project: str, name: str) -> ServicePage:
    """Raises NoSuchResource, and what looking raises."""
    identity = identity_of("Service", name, project)
    there = identity in view.actual.existing or identity in view.desired.digests
    if not (project and name and there and view.sees(identity)):
        raise NoSuchResource(what="service", name=clean(f"{project}/{name}"), hint="")
    found = describe_resource(view, identity)
    facts = found.service
    assert facts is not None, "a service has facts"
    status, commit = facts.status, facts.item.recorded.commit if facts.item is not None else ""
    cells = service_cells(facts)
    return ServicePage(
        project=project,
        name=name,
        phase=status.phase if status is not None else "",
        state=view.redact(phase_words(status) if status is not None else cells[6]),
        ready=cells[2],
        progress=progress_words(status) if status is not None else "",
        scale=view.redact(clean(status.scale)) if status is not None else "",
        order=view.redact(order_words(facts)),
        place=found.place,
        commit=commit,
        commit_facts=view.commit_facts([commit]).get(commit) if commit else None,
        apps=tuple(map(app_row, facts.apps)),
        replicas=tuple(_replica_rows(view, facts)),
        generations=tuple(_generation_rows(view, facts)),
        document=tuple(document_lines(found.document)),
        events=event_rows(view, identity),
    )


def _replica_rows(view: PassView, facts: ServiceFacts) -> Iterator[ReplicaRow]:
    replicas = facts.status.replicas if facts.status is not None else ()
    infos = node_infos(view.desired, view.actual) if replicas else {}
    total = sum(each.weight for each in replicas)
    for each in replicas:
        yield _replica_row(view, each, infos, total)


def _replica_row(
    view: PassView, each: ReplicaStatus, infos: Mapping[str, NodeInfo], total: float
) -> ReplicaRow:
    item = view.actual.existing.get(each.session)
    placement = item.recorded.placement if item is not None else None
    kernels = placement.kernels if placement is not None else ()
    devices = (kernel_devices(kernel, infos.get(kernel.node)) for kernel in kernels)
    return ReplicaRow(
        name=ref_of(each.session).name,
        phase=each.phase,
        nodes=tuple(dict.fromkeys(kernel.node for kernel in kernels)),
        devices=", ".join(filter(None, devices)),
        generation=each.generation,
        share=_percent(each.weight, total),
        why=view.redact(clean(each.why)),
    )


def _generation_rows(view: PassView, facts: ServiceFacts) -> Iterator[GenerationRow]:
    """The newest first."""
    shares = traffic_shares(facts)
    total = sum(shares.values())
    for each in reversed(facts.state.generations):
        yield GenerationRow(
            name=each.name,
            commit=each.commit,
            since=iso_time(each.since),
            share=_percent(shares.get(each.name, 0.0), total),
            notes=", ".join(generation_notes(facts, each)),
            failed=view.redact(clean(facts.state.failed.get(each.name, ""))),
        )


def _percent(weight: float, total: float) -> str:
    return f"{100 * weight / total:.0f} %" if total and weight else ""
