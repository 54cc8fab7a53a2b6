"""Nodes, a hundred a page: how they are, how they stand against their profiles, and what of them is taken."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, Field

from bai.queries.facts.node_infos import node_infos
from bai.queries.nodes import declared_row, node_rows
from bai.render.humanize import clean, iso_time, join_limited
from bai.render.nodes.health import health_summary
from bai.render.nodes.rows import WORDS, node_cells, provision_word
from bai.web.panel.views.cluster_map import rack_of
from bai.web.panel.views.device_drawing import fill_step
from bai.web.panel.views.paging import Paging, kept
from reconciler.plan.nodes.profile_status import profile_status
from schemas.values.resource_ref import identity_of

if TYPE_CHECKING:
    from bai.render.nodes.rows import NodeRow
    from bai.web.pass_view import PassView
    from providers.health.values import NodeHealth
    from reconciler.plan.nodes.profile_status import ProfileStatus
    from reconciler.values.rollout import Rollout
    from schemas.kinds.node import Node

IN_STEP = "in step"
_REBOOT = "reboot pending"
_HEALTH = {"critical": "bad", "warning": "warn", "ok": "good"}
Text = Annotated[str, Field(max_length=300)]


class NodeListQuery(BaseModel, frozen=True):
    """What is asked for, as the address says it; empty asks nothing. `q`: what stands in names; `standing`:
    against its profile, in a word."""

    q: Text = ""
    group: Text = ""
    state: Text = ""
    profile: Text = ""
    standing: Text = ""
    page: Annotated[int, Field(ge=1, le=100_000)] = 1


@dataclass(frozen=True, slots=True)
class Standing:
    """A node against its profile. `word`: how, and whether that is of now; `kind`: the same for filters and
    colours; `at` (ISO 8601): since when it failed, else when it was provisioned; `wave`: when it is its turn;
    what it is (`profile`), `why` it is to be provisioned and its `deviations` are for who sees documents."""

    profile: str = ""
    word: str = ""
    kind: str = ""
    at: str = ""
    why: str = ""
    deviations: tuple[str, ...] = ()
    wave: str = ""


@dataclass(frozen=True, slots=True)
class ListedNode:
    """One row. Amounts as `bai nodes list` has them, `fill`s of ten steps; `rack` and `note` (why it is in
    its state) are for who sees documents. `health`: in a word, empty where nobody asked; `health_kind`:
    `good`, `warn` or `bad`."""

    name: str
    group: str
    rack: str
    state: str
    note: str
    standing: Standing
    health: str
    health_kind: str
    cores: str
    core_fill: int
    memory: str
    gpus: str
    gpu_fill: int
    models: str


@dataclass(frozen=True, slots=True)
class NodeList:
    """`groups`, `states`, `profiles`, `standings`: what there is to choose from."""

    asked: NodeListQuery
    rows: tuple[ListedNode, ...]
    paging: Paging
    groups: tuple[str, ...]
    states: tuple[str, ...]
    profiles: tuple[str, ...]
    standings: tuple[str, ...]

    def query(self, **changes: object) -> dict[str, object]:
        """Of a link that keeps what is asked for but for these changes: on its first page, if it is not one
        of pages."""
        return kept({**self.asked.model_dump(), "page": "", **changes})


@dataclass(frozen=True, slots=True)
class NodeState:
    """What a node is chosen by."""

    node: Node
    group: str
    state: str
    profile: str
    kind: str


def node_list(view: PassView, asked: NodeListQuery) -> NodeList:
    """Raises what looking raises."""
    every, text = node_states(view), asked.q.strip().lower()
    chosen = [
        each
        for each in every
        if (not text or text in each.node.name.lower())
        and (not asked.group or each.group == asked.group)
        and (not asked.state or each.state == asked.state)
        and (not asked.profile or each.profile == asked.profile)
        and (not asked.standing or each.kind == asked.standing)
    ]
    paging = Paging.of(len(chosen), asked.page)
    page = chosen[paging.first : paging.last]
    notes = {name: info.note for name, info in node_infos(view.desired, view.actual).items() if info.note}
    rows = {row.name: row for row in node_rows(view.desired, view.actual, {each.node.name for each in page})}
    waves = turns(view.plan.rollout) if view.plan.rollout else {}
    return NodeList(
        asked=asked,
        rows=tuple(_listed(view, each.node, rows[each.node.name], notes, waves) for each in page),
        paging=paging,
        groups=_known(each.group for each in every),
        states=_known(each.state for each in every),
        profiles=_known(each.profile for each in every),
        standings=_known(each.kind for each in every),
    )


def node_states(view: PassView) -> list[NodeState]:
    """Of all nodes, by name."""
    infos, found = node_infos(view.desired, view.actual), []
    for node in view.desired.nodes:
        info, status = infos.get(node.name), profile_status(view.actual, node.name)
        row = declared_row(view.desired, view.actual, node) if info is None else None
        group, state = (info.group, info.state) if info else (row.group, row.state) if row else ("", "")
        profile = status.profile if status and view.sees(node.identity) else ""
        found.append(NodeState(node, group, str(state), profile, _kind(status)))
    return found


def turns(rollout: Rollout) -> Mapping[str, str]:
    """Node → which wave it is in, in words."""
    found = {node: "this wave" for node in rollout.wave}
    for number, wave in enumerate(rollout.later, start=2):
        found |= {node: f"wave {number}" for node in wave}
    return found | {each.node: "held back" for each in rollout.waits}


def standing_of(view: PassView, name: str, wave: str = "") -> Standing:
    """How a node stands against its profile; an empty one for a node without a profile."""
    status = profile_status(view.actual, name)
    if status is None:
        return Standing()
    record = view.actual.provision_records.get(name)
    failed = status.kind == "failed" and record is not None
    sees = view.sees(identity_of("Node", name))
    return Standing(
        profile=clean(status.profile) if sees else "",
        word=provision_word(status) if status.kind or status.reboot else _in_step(status),
        kind=_kind(status),
        at=iso_time(record.at if failed and record is not None else status.sealed),
        why=clean(status.why) if sees else "",
        deviations=tuple(map(clean, status.deviations)) if sees else (),
        wave=wave,
    )


def _in_step(status: ProfileStatus) -> str:
    return provision_word(status).replace("yes", IN_STEP, 1)


def _kind(status: ProfileStatus | None) -> str:
    if status is None:
        return ""
    return WORDS[status.kind] if status.kind else _REBOOT if status.reboot else IN_STEP


def _known(found: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({*found} - {""}))


def _listed(
    view: PassView, node: Node, row: NodeRow, notes: Mapping[str, str], waves: Mapping[str, str]
) -> ListedNode:
    _, _, state, cores, memory, gpus = node_cells(row)
    health, missed = view.actual.health.get(node.name), view.actual.missed.get(node.name)
    note = notes.get(node.name) or (missed.why if missed else view.actual.unprobed.get(node.name, ""))
    return ListedNode(
        name=node.name,
        group=row.group,
        rack=clean(rack_of(node, view)),
        state=state,
        note=clean(note) if view.sees(node.identity) else "",
        standing=standing_of(view, node.name, waves.get(node.name, "")),
        health=health_summary(health) if health else "",
        health_kind=health_kind(health) if health else "",
        cores=cores,
        core_fill=fill_step(1000 * row.used_cores + row.shared_milli, 1000 * row.cores),
        memory=memory,
        gpus=gpus if row.gpus else "",
        gpu_fill=fill_step(row.used_gpus, row.gpus),
        models=join_limited(map(clean, row.gpu_models), 2),
    )


def health_kind(health: NodeHealth) -> str:
    """`good`, `warn` or `bad`; empty where nothing is known."""
    return "" if health.facts is None else _HEALTH[health.severity]
