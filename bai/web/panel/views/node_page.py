"""A node on one page: what it is, how it is, and who is there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bai.queries.facts.node_infos import node_infos
from bai.queries.nodes import declared_row, seen_row
from bai.render.humanize import clean, size
from bai.render.nodes.hardware import hardware_summary, hardware_tables
from bai.render.nodes.health import health_lines, health_summary
from bai.render.nodes.rows import node_row, provision_lines, provision_word, running_placements
from bai.render.plan.placements import kernel_cores, kernel_devices, kernel_memory
from bai.render.printout import Printout
from bai.web.panel.blocks import block_kinds
from bai.web.panel.views.device_drawing import Holder, holder_of
from bai.web.panel.views.event_rows import EventRow, event_rows
from bai.web.panel.views.node_drawing import DrawnNode, draw_node
from reconciler.plan.nodes.profile_status import profile_status
from schemas.problems.errors.command import NoSuchResource
from schemas.values.resource_ref import identity_of

if TYPE_CHECKING:
    from bai.render.nodes.picture import HeldPlacement
    from bai.render.nodes.rows import NodeRow
    from bai.web.panel.blocks import Block
    from bai.web.pass_view import PassView
    from planner.model.types import NodeInfo
    from schemas.hardware.model import Hardware
    from schemas.kinds.node import Node


@dataclass(frozen=True, slots=True)
class HeldRow:
    """What one container holds of the node, in words. `phase` and `kernel` are empty where it is another
    project's."""

    holder: Holder
    kernel: str
    phase: str
    cores: str
    memory: str
    devices: str


@dataclass(frozen=True, slots=True)
class NodePage:
    """`row`: as lists of nodes have it; `declared`: the state that its document says, for those who see it.
    `note`: why it is in its state. `picture` is None and `hardware` empty where its hardware is not known.
    `profile`: how it stands against its profile in a word, empty for a node without one; `profile_lines` the
    same in full; `health`: in a word, empty where nobody asked. Documents' `labels`, `events` and why the
    node is as it is (`note`, `profile_lines`, `health_lines`) are there for those who see the node's
    document."""

    row: NodeRow
    declared: str
    note: str
    picture: DrawnNode | None
    held: tuple[HeldRow, ...]
    hardware: tuple[tuple[str, Block], ...]
    summary: str
    profile: str
    profile_lines: tuple[str, ...]
    health: str
    health_lines: tuple[tuple[str, str], ...]
    """What is wrong, and what to do."""
    labels: tuple[tuple[str, str], ...]
    events: tuple[EventRow, ...]

    @property
    def memory(self) -> str:
        """`12GiB of 2TiB`."""
        return f"{size(self.row.used_memory)} of {size(self.row.memory)}"


def node_page(view: PassView, name: str) -> NodePage:
    """Raises NoSuchResource, and what looking raises."""
    node = next((each for each in view.desired.nodes if each.name == name), None)
    identity = identity_of("Node", name)
    if node is None:
        raise NoSuchResource(what="node", name=clean(name), hint="")
    actual, info = view.actual, node_infos(view.desired, view.actual).get(name)
    here = holdings_on({name}, running_placements(actual))
    status, health = profile_status(actual, name), actual.health.get(name)
    row, sees = seen_row(view, _row(view, node, info, here)), view.sees(identity)
    return NodePage(
        row=row,
        declared=node.spec.state if sees and identity in view.desired.digests else "",
        note=_note(view, info, name) if sees else "",
        picture=draw_node(view.cluster, info, here, view.sees) if info else None,
        held=tuple(_held_rows(view, name, here, info)),
        hardware=_hardware(info.hardware) if info else (),
        summary=hardware_summary(info.hardware) if info else "",
        profile=provision_word(status) if status else "",
        profile_lines=tuple(provision_lines(status)) if status and sees else (),
        health=health_summary(health) if health else "",
        health_lines=tuple(health_lines(health)) if health and sees else (),
        labels=_labels(node) if sees else (),
        events=event_rows(view, identity),
    )


def holdings_on(nodes: set[str], placements: Iterable[HeldPlacement]) -> list[HeldPlacement]:
    """The placements that hold something of these nodes."""
    return [held for held in placements if any(kernel.node in nodes for kernel in held.placement.kernels)]


def _row(view: PassView, node: Node, info: NodeInfo | None, here: Sequence[HeldPlacement]) -> NodeRow:
    if info is None:
        return declared_row(view.desired, view.actual, node)
    kernels = [kernel for held in here for kernel in held.placement.kernels if kernel.node == node.name]
    address = node.spec.address or node.name
    return node_row(info, kernels, address, profile_status(view.actual, node.name))


def _hardware(hardware: Hardware) -> tuple[tuple[str, Block], ...]:
    return tuple(block_kinds(Printout(blocks=tuple(hardware_tables(hardware)))))


def _note(view: PassView, info: NodeInfo | None, name: str) -> str:
    if info is not None:
        return clean(info.note)
    missed = view.actual.missed.get(name)
    return clean(missed.why if missed else view.actual.unprobed.get(name, ""))


def _held_rows(
    view: PassView, name: str, here: Iterable[HeldPlacement], info: NodeInfo | None
) -> Iterator[HeldRow]:
    for held in sorted(
        here, key=lambda each: (not view.sees(each.placement.session), each.placement.session)
    ):
        session = held.placement.session
        holder, item = holder_of(session, view.sees), view.actual.existing.get(session)
        for kernel in held.placement.kernels:
            if kernel.node == name:
                yield HeldRow(
                    holder=holder,
                    kernel=clean(kernel.kernel) if holder.name else "",
                    phase=item.phase if item and holder.name else "",
                    cores=kernel_cores(kernel),
                    memory=kernel_memory(kernel),
                    devices=kernel_devices(kernel, info),
                )


def _labels(node: Node) -> tuple[tuple[str, str], ...]:
    found = {**node.metadata.labels, **node.spec.labels}
    return tuple((clean(key), clean(str(value))) for key, value in sorted(found.items()))
