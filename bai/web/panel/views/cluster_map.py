"""A cluster on one page: how it stands, and all its nodes as cells that tell how full they are."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bai.queries.facts.node_infos import node_infos
from bai.queries.status import read_cluster_status
from bai.render.humanize import clean, format_milli, name_list, plural
from bai.render.nodes.picture import count_cores
from bai.render.nodes.rows import running_placements
from bai.render.resources.loop_status import hold_lines, loop_lines, pass_lines
from bai.web.panel.views.device_drawing import ANOTHER, fill_step, gpu_shares
from bai.web.panel.views.node_drawing import DrawnNode, draw_node
from schemas.values.resource_ref import identity_of, ref_of

if TYPE_CHECKING:
    from bai.render.nodes.picture import HeldPlacement
    from bai.render.resources.cluster_status import ClusterStatus
    from bai.web.pass_view import PassView
    from planner.model.types import KernelPlacement, NodeInfo
    from schemas.hardware.model import Hardware
    from schemas.kinds.node import Node

MOST_PICTURES = 16
"""Nodes of a cluster that is small enough to be drawn whole."""
RACK_LABELS = ("rack", "bai/leaf")
"""Labels of nodes that say where they stand, the first that a node has."""
_MOST_NAMES = 6
_STATES: Mapping[str, str] = {"active": "ready", "drained": "draining"}
_SICK = ("unreachable", "unprovisioned", "unhealthy", "unknown")


@dataclass(frozen=True, slots=True)
class NodeCell:
    """One node. GPUs and cores in thousandths where they are used; `unhealthy`: GPUs that take no sessions;
    `fill` in steps from 0 to 10, of its GPUs where it has some, else of its cores; `project`: who holds most
    of it, empty for nobody and where that is not for the viewer to know.

    `state`: `ready`, `cordoned`, `draining`, `drained`, `unreachable`, `unprovisioned`, `unhealthy` (ready
    but for some of its GPUs), `unknown` (its hardware).
    """

    name: str
    state: str
    gpus: int = 0
    gpu_milli: int = 0
    cores: int = 0
    core_milli: int = 0
    unhealthy: int = 0
    fill: int = 0
    project: str = ""
    title: str = ""


@dataclass(frozen=True, slots=True)
class Rack:
    """Nodes that stand together; without a name, those of which no document says where."""

    name: str
    cells: tuple[NodeCell, ...]


@dataclass(frozen=True, slots=True)
class GroupMap:
    """The nodes of a resource group; without a name, those that are in none. `states`: state → nodes."""

    name: str
    racks: tuple[Rack, ...]
    nodes: int
    states: Mapping[str, int]
    gpus: int
    gpu_milli: int

    @property
    def gpus_used(self) -> str:
        return format_milli(self.gpu_milli)


@dataclass(frozen=True, slots=True)
class ClusterMap:
    """`problems`: sentences, worst first; `loop`: what it does, in sentences; `projects`: those of cells."""

    status: ClusterStatus
    groups: tuple[GroupMap, ...]
    problems: tuple[str, ...]
    loop: tuple[str, ...]
    projects: tuple[str, ...]
    pictures: tuple[DrawnNode, ...] = ()

    @property
    def nodes(self) -> int:
        return sum(each.nodes for each in self.groups)

    @property
    def gpus(self) -> int:
        return sum(each.gpus for each in self.groups)

    @property
    def gpus_used(self) -> str:
        """Parts of devices included."""
        return format_milli(sum(each.gpu_milli for each in self.groups))

    @property
    def gpus_free(self) -> int:
        """Healthy, wholly free, on nodes that take sessions."""
        return sum(each.free for each in self.status.gpus.values())

    @property
    def waiting(self) -> int:
        return sum(self.status.queue.values())


@dataclass(slots=True)
class _Load:
    """What is held on one node."""

    core_milli: int = 0
    cores_of: Counter[str] = field(default_factory=Counter)
    """Thousandths of cores by project."""
    devices: list[tuple[str, int, str]] = field(default_factory=list)
    """Device, thousandths of it, project."""

    def add(self, project: str, kernel: KernelPlacement) -> None:
        self.core_milli += kernel.cpu_milli
        self.cores_of[project] += kernel.cpu_milli
        self.devices += [(grant.id, grant.milli, project) for grant in kernel.devices]

    def gpus(self, hardware: Hardware) -> tuple[int, Counter[str]]:
        """Thousandths of GPUs that are held, and by project."""
        parts, held, whose = gpu_shares(hardware), Counter[str](), Counter[str]()
        for device, milli, project in self.devices:
            if device in parts:
                gpu, share = parts[device]
                held[gpu] += milli * share // 1000
                whose[project] += milli * share // 1000
        return sum(min(1000, milli) for milli in held.values()), whose


def cluster_map(view: PassView) -> ClusterMap:
    """Raises what looking raises."""
    status, infos = read_cluster_status(view), node_infos(view.desired, view.actual)
    placements = running_placements(view.actual)
    loads = _loads(view, placements)
    placed: dict[tuple[str, str], list[NodeCell]] = defaultdict(list)
    nodes = view.desired.nodes
    for node in nodes:
        info = infos.get(node.name)
        cell = _known_cell(info, loads[node.name]) if info else _unknown_cell(node, view)
        group = info.group if info else view.repository.group_of_node(node) or ""
        placed[group, rack_of(node, view)].append(cell)
    groups = tuple(_groups(placed))
    cells = [cell for group in groups for rack in group.racks for cell in rack.cells]
    return ClusterMap(
        status=status,
        groups=groups,
        problems=tuple(view.redact(list(_problems(view, status, cells)))),
        loop=tuple(view.redact(list(loop_lines(status.loop)))),
        projects=tuple(sorted({cell.project for cell in cells} - {""})),
        pictures=_pictures(view, infos, placements) if len(nodes) <= MOST_PICTURES else (),
    )


def _loads(view: PassView, placements: Iterable[HeldPlacement]) -> dict[str, _Load]:
    """What is held, by node; the projects that the viewer does not see are one, without a name."""
    loads: dict[str, _Load] = defaultdict(_Load)
    shown: dict[str, str] = {}
    for held in placements:
        session = held.placement.session
        project = ref_of(session).project
        if project not in shown:  # Whoever sees one of its sessions sees all of them.
            shown[project] = project if view.sees(session) else ""
        for kernel in held.placement.kernels:
            loads[kernel.node].add(shown[project], kernel)
    return loads


def _known_cell(info: NodeInfo, load: _Load) -> NodeCell:
    gpus, cores = len(info.hardware.gpus), count_cores(info.hardware)
    gpu_milli, whose = load.gpus(info.hardware)
    unhealthy = sum(not gpu.healthy or gpu.id in info.unhealthy for gpu in info.hardware.gpus)
    most = (whose or load.cores_of).most_common(1)
    project, state = most[0][0] if most else "", _state(info, load, unhealthy)
    parts = [state if state != "unhealthy" else f"ready but for {plural(unhealthy, 'GPU')}"]
    parts += [f"{format_milli(gpu_milli)} of {plural(gpus, 'GPU')} used"] if gpus else []
    parts += [f"{format_milli(load.core_milli)} of {plural(cores, 'core')} used"]
    parts += [f"most of it by {clean(project) or ANOTHER}"] if most else []
    return NodeCell(
        name=info.name,
        state=state,
        gpus=gpus,
        gpu_milli=gpu_milli,
        cores=cores,
        core_milli=load.core_milli,
        unhealthy=unhealthy,
        fill=fill_step(gpu_milli, 1000 * gpus) if gpus else fill_step(load.core_milli, 1000 * cores),
        project=project,
        title=f"{clean(info.name)}: {', '.join(parts)}",
    )


def _state(info: NodeInfo, load: _Load, unhealthy: int) -> str:
    if info.state == "drained":
        return "draining" if load.cores_of or load.devices else "drained"
    if info.state == "active" and unhealthy:
        return "unhealthy"
    return _STATES.get(info.state, info.state)


def _unknown_cell(node: Node, view: PassView) -> NodeCell:
    state = "unreachable" if node.name in view.actual.missed else "unknown"
    why = "cannot be reached" if state == "unreachable" else "its hardware is not known"
    return NodeCell(node.name, state, title=f"{clean(node.name)}: {why}, nothing is placed there")


def rack_of(node: Node, view: PassView) -> str:
    """Where it stands; empty where that is not known. What a document says is for those who see documents."""
    if not view.sees(identity_of("Node", node.name)):
        return ""
    labels = {**node.metadata.labels, **node.spec.labels}
    return next((str(labels[label]) for label in RACK_LABELS if label in labels), "")


def _groups(placed: Mapping[tuple[str, str], Sequence[NodeCell]]) -> Iterator[GroupMap]:
    """By name, those without one last."""
    racks: dict[str, list[Rack]] = defaultdict(list)
    for group, rack in sorted(placed, key=lambda key: (not key[0], key[0], not key[1], key[1])):
        racks[group].append(Rack(rack, tuple(placed[group, rack])))
    for name, those in racks.items():
        cells = [cell for rack in those for cell in rack.cells]
        yield GroupMap(
            name=name,
            racks=tuple(those),
            nodes=len(cells),
            states=dict(Counter(cell.state for cell in cells).most_common()),
            gpus=sum(cell.gpus for cell in cells),
            gpu_milli=sum(cell.gpu_milli for cell in cells),
        )


def _problems(view: PassView, status: ClusterStatus, cells: Iterable[NodeCell]) -> Iterator[str]:
    loop = status.loop
    if loop.presence in ("stopped", "never"):
        yield from loop_lines(loop)
    else:
        yield from hold_lines(loop.directives)
    if loop.last_pass is not None and not loop.last_pass.good:
        yield from pass_lines(loop)
    if not status.complete:
        yield "not everything could be observed"
    by_state: dict[str, list[NodeCell]] = defaultdict(list)
    for cell in cells:
        by_state[cell.state].append(cell)
    for state in _SICK:
        if found := by_state.get(state):
            names = name_list((clean(cell.name) for cell in found), _MOST_NAMES)
            yield f"{plural(len(found), 'node')} {_trouble(state, found)}: {names}"
    yield from map(clean, view.actual.doubts)


def _trouble(state: str, cells: Sequence[NodeCell]) -> str:
    verb = "has" if len(cells) == 1 else "have"
    match state:
        case "unreachable":
            return "cannot be reached"
        case "unprovisioned":
            return f"{'is' if len(cells) == 1 else 'are'} not provisioned, so without sessions"
        case "unhealthy":
            gpus = sum(cell.unhealthy for cell in cells)
            return f"{verb} {plural(gpus, 'GPU')} that {'takes' if gpus == 1 else 'take'} no sessions"
        case _:
            return f"{verb} hardware that is not known, so no sessions"


def _pictures(
    view: PassView, infos: Mapping[str, NodeInfo], placements: Iterable[HeldPlacement]
) -> tuple[DrawnNode, ...]:
    there: dict[str, list[HeldPlacement]] = defaultdict(list)
    for held in placements:
        for name in {kernel.node for kernel in held.placement.kernels}:
            there[name].append(held)
    return tuple(draw_node(view.cluster, infos[name], there[name], view.sees) for name in sorted(infos))
