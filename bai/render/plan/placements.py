"""Where a plan puts things, in words: each container with its cores and devices, and where there are many,
sessions of the same shape together."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bai.render.humanize import clean, format_milli, name_list, number_ranges, plural, short_name, size
from bai.render.nodes.picture import HeldPlacement, NodePicture, node_picture
from planner.model import slots
from planner.model.huge_pages import bytes_by_slot
from schemas.hardware.anonymous import is_anonymous
from schemas.hardware.cpuset import format_cpus

if TYPE_CHECKING:
    from planner.model.types import DeviceGrant, KernelPlacement, NodeInfo, Placement
    from reconciler.values.plan import Plan

_MOST_NAMES = 4


@dataclass(frozen=True, slots=True)
class PlacementRow:
    """The place of one container, or of several of a session that are given the same on different nodes, in
    words."""

    session: str
    containers: tuple[str, ...]
    """Their names; none of a session of one."""
    nodes: tuple[str, ...]
    cores: str
    memory: str
    devices: str
    why: str

    @property
    def container(self) -> str:
        return name_list(self.containers, _MOST_NAMES)

    @property
    def node(self) -> str:
        return name_list(dict.fromkeys(self.nodes), _MOST_NAMES)


@dataclass(frozen=True, slots=True)
class ShapeRow:
    """Sessions of a resource group that are given the same amounts."""

    sessions: tuple[str, ...]
    group: str
    each: str
    """What one of them is given."""
    nodes: tuple[str, ...]
    """In order, each once."""

    @property
    def names(self) -> str:
        return name_list(self.sessions, _MOST_NAMES)

    @property
    def node(self) -> str:
        return name_list(self.nodes, _MOST_NAMES)


def new_placements(plan: Plan) -> list[Placement]:
    """Placements that this plan makes or moves."""
    found = []
    for action in plan.changes:
        after = action.placement_after
        if after and (after != action.placement_before or action.verb == "replace"):
            found.append(after)
    return found


def held_placements(plan: Plan) -> list[HeldPlacement]:
    """What is taken once the plan is applied."""
    new = {placement.session for placement in new_placements(plan)}
    after = (action.placement_after for action in plan.actions)
    return [HeldPlacement(placement, new=placement.session in new) for placement in after if placement]


def node_pictures(plan: Plan, nodes: Mapping[str, NodeInfo]) -> list[NodePicture]:
    """The nodes on which this plan places something, by name."""
    return [node_picture(node, held) for node, held in placed_nodes(plan, nodes)]


def placed_nodes(plan: Plan, nodes: Mapping[str, NodeInfo]) -> list[tuple[NodeInfo, Sequence[HeldPlacement]]]:
    """The same with what is held there once the plan is applied."""
    by_node: dict[str, list[HeldPlacement]] = defaultdict(list)
    names = set()
    for item in held_placements(plan):
        for name in {kernel.node for kernel in item.placement.kernels}:
            by_node[name].append(item)
            if item.new:
                names.add(name)
    return [(nodes[name], by_node[name]) for name in sorted(names) if name in nodes]


def placement_rows(plan: Plan, nodes: Mapping[str, NodeInfo]) -> list[PlacementRow]:
    """Where this plan puts each container, and why there; those of a gang that are given the same of their
    nodes are one row."""
    return [
        row
        for placement in new_placements(plan)
        for row in _together(
            [
                _placement_row(placement, kernel, nodes.get(kernel.node), first=at == 0)
                for at, kernel in enumerate(placement.kernels)
            ]
        )
    ]


def _together(rows: Sequence[PlacementRow]) -> Iterator[PlacementRow]:
    """Neighbours that are given the same, each of a node of its own."""
    last: PlacementRow | None = None
    for row in rows:
        if last and row.nodes[0] not in last.nodes[-1:] and _given(row) == _given(last):
            last = replace(last, containers=last.containers + row.containers, nodes=last.nodes + row.nodes)
            continue
        if last:
            yield last
        last = row
    if last:
        yield last


def _given(row: PlacementRow) -> tuple[str, str, str]:
    return row.cores, row.memory, row.devices


def _placement_row(
    placement: Placement, kernel: KernelPlacement, node: NodeInfo | None, *, first: bool
) -> PlacementRow:
    return PlacementRow(
        session=short_name(placement.session) if first else "",
        containers=(clean(kernel.kernel),) if len(placement.kernels) > 1 else (),
        nodes=(clean(kernel.node),),
        cores=kernel_cores(kernel),
        memory=kernel_memory(kernel),
        devices=kernel_devices(kernel, node),
        why=_placement_reason(placement) if first else "",
    )


def shape_rows(plan: Plan, nodes: Mapping[str, NodeInfo]) -> list[ShapeRow]:
    """The placements of the plan, those of one group together that are given the same amounts."""
    found: dict[tuple[str, str], list[Placement]] = {}
    cores = {name: _cores_by_cpu(node) for name, node in nodes.items()}
    for placement in new_placements(plan):
        amounts = Counter(_amounts_text(kernel, cores.get(kernel.node)) for kernel in placement.kernels)
        found.setdefault((placement.group, _shape_text(amounts)), []).append(placement)
    return [
        ShapeRow(
            sessions=tuple(short_name(one.session) for one in those),
            group=clean(group),
            each=each,
            nodes=tuple(sorted({clean(kernel.node) for one in those for kernel in one.kernels})),
        )
        for (group, each), those in found.items()
    ]


def _shape_text(amounts: Counter[str]) -> str:
    """`8 cores, 64GiB`, of several containers `4 x (8 cores, 64GiB)`."""
    if amounts.total() == 1:
        return next(iter(amounts))
    return " and ".join(f"{count} x ({text})" for text, count in amounts.items())


def _cores_by_cpu(node: NodeInfo) -> dict[int, int]:
    """The number of its core, by logical CPU."""
    return {cpu: at for at, core in enumerate(node.hardware.siblings) for cpu in core}


def _amounts_text(kernel: KernelPlacement, cores: Mapping[int, int] | None) -> str:
    """`8 cores, 64GiB, 2 GPUs`."""
    parts = []
    if kernel.cpus and cores:
        parts.append(plural(len({cores.get(cpu, -1 - cpu) for cpu in kernel.cpus}), "core"))
    elif kernel.cpus:
        parts.append(plural(len(kernel.cpus), "CPU"))
    elif kernel.cpu_milli:
        parts.append(f"{format_milli(kernel.cpu_milli)} cores shared")
    if kernel.memory:
        parts.append(size(kernel.memory))
    parts += [clean(slots.amount_text(slot, n)) for slot, n in bytes_by_slot(kernel.hugepages).items()]
    counts = Counter((_device_slot(grant), grant.milli) for grant in kernel.devices)
    for (slot, milli), count in counts.items():
        whole = clean(slots.amount_text(slot, count))
        part = f"{format_milli(milli)} of {'a' if count == 1 else f'each of {count}'} "
        word = clean(slots.device_word(slot)) + ("s" if count > 1 else "")
        parts.append(whole if milli >= 1000 else part + word)
    return ", ".join(parts) or "a place"


def _device_slot(grant: DeviceGrant) -> str:
    """The slot of whole devices that it is one of, or a part of one of."""
    if grant.slot.endswith(slots.SHARES):
        return slots.whole_slot(grant.slot)
    return grant.slot


def kernel_cores(kernel: KernelPlacement) -> str:
    """`0-7, 16-23`, or the shared amount."""
    if kernel.cpus:
        return format_cpus(kernel.cpus).replace(",", ", ")
    return f"{format_milli(kernel.cpu_milli)} shared" if kernel.cpu_milli else "-"


def kernel_memory(kernel: KernelPlacement) -> str:
    """`64GiB on numa0`."""
    where = f" on numa{format_cpus(kernel.memory_nodes)}" if kernel.memory_nodes else ""
    parts = [f"{size(kernel.memory)}{where}"] if kernel.memory else []
    return ", ".join((*parts, *_pages_text(kernel))) or "-"


def _pages_text(kernel: KernelPlacement) -> Iterator[str]:
    """`2 GiB of hugepages-2Mi on numa0`."""
    for slot, amount in bytes_by_slot(kernel.hugepages).items():
        nodes = sorted({one.node for one in kernel.hugepages if one.slot == slot and one.node is not None})
        yield clean(slots.amount_text(slot, amount)) + (f" on numa{format_cpus(nodes)}" if nodes else "")


def counted_words(grants: Iterable[DeviceGrant]) -> list[str]:
    """`any 2 GPUs`, of devices that are known by their number alone: which ones, somebody else chooses."""
    counts = Counter(grant.slot for grant in grants if is_anonymous(grant.id))
    return [f"any {clean(slots.amount_text(slot, count))}" for slot, count in counts.items()]


def kernel_devices(kernel: KernelPlacement, node: NodeInfo | None) -> str:
    """`gpu 0, 1`, `half of gpu 3` as `0.5 of gpu 3`; ids where the node's hardware is not known; `any 2 GPUs`
    of those that are known by number alone."""
    numbers = {gpu.id: gpu.index for gpu in node.hardware.gpus} if node else {}
    counted = [grant for grant in kernel.devices if is_anonymous(grant.id)]
    whole = [
        numbers.get(grant.id, grant.id)
        for grant in kernel.devices
        if grant.milli >= 1000 and grant not in counted
    ]
    parts = [
        f"{format_milli(grant.milli)} of gpu {clean(str(numbers.get(grant.id, grant.id)))}"
        for grant in kernel.devices
        if grant.milli < 1000
    ]
    if whole:
        parts.insert(0, f"gpu {clean(number_ranges(whole))}")
    parts += counted_words(counted)
    if kernel.nics:
        parts.append(f"nic {clean(number_ranges(kernel.nics))}")
    return "; ".join(parts) or "-"


def _placement_reason(placement: Placement) -> str:
    return "; ".join(part for part in (_choice_text(placement), clean(_network_text(placement))) if part)


_NETWORKS = {
    "bridge": "a bridge of its own",
    "overlay": "an overlay of its own",
    "host": "its nodes' network",
    "pods": "names of its own among pods",
}


def _network_text(placement: Placement) -> str:
    """Its network, where it is not the engine's own, and where its ports are reached."""
    modes = {part.network for part in placement.kernels}
    if len(placement.kernels) == 1:
        modes.discard("pods")
    networks = sorted(_NETWORKS[mode] for mode in modes if mode in _NETWORKS)
    named = ((part, port) for part in placement.kernels[:1] for port in part.ports)
    ports = [
        f"{port.name} at {part.node}:{port.on}" for part, port in named if port.name not in ("ssh", "master")
    ]
    return ", ".join([*networks, *ports])


def _choice_text(placement: Placement) -> str:
    choice = placement.choice
    if choice is None:
        return ""
    numa = "" if choice.numa_nodes <= 1 else f", over {choice.numa_nodes} NUMA nodes"
    runner = f", before {choice.runner_up}" if choice.runner_up else ""
    detail = f": {choice.detail}" if choice.detail else ""
    return clean(f"{choice.strategy} {choice.score}{runner}{numa}{detail}".strip())
