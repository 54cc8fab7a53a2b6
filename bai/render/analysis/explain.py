"""Why a session is where it is, or why it waits and how close each node comes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bai.render.humanize import clean, format_milli, join_limited, plural, short_name
from bai.render.plan.placements import kernel_memory
from bai.render.plan.waits import wait_lines
from bai.render.printout import Section, Table
from planner.model import slots
from reconciler.values.services.state import place_service
from reconciler.values.session_phase import ENDED
from schemas.hardware.anonymous import is_anonymous
from schemas.hardware.cpuset import format_cpus
from schemas.values.resource_ref import ref_of

if TYPE_CHECKING:
    from planner.advice.node_shortfalls import NeedFit, NodeFit, Verdict
    from planner.model.types import Choice, DeviceGrant, KernelPlacement, NodeInfo, Placement, Wait

STRATEGIES = {
    "concentrated": "takes the node that is left with the least, so that whole nodes stay free",
    "dispersed": "takes the node that is left with the most, so that the load is spread",
    "roundrobin": "takes the nodes in turn",
    "least-fragmentation": "takes the node whose free GPUs lose the least of their use for typical requests",
}
VERDICTS: dict[Verdict, str] = {
    "room": "room",
    "short": "taken by others",
    "closed": "not open",
    "too-small": "too small",
    "unfit": "not what was asked for",
}


@dataclass(frozen=True, slots=True)
class Explanation:
    """One session, and everything that a person may ask about its place."""

    id: str
    phase: str
    """As it is now; empty when it was never applied."""
    reason: str
    """Why the phase is what it is."""
    plan: str
    """What the plan does with it: a verb, and the cause in brackets; empty when it does nothing."""
    group: str
    selection: str
    now: Placement | None
    """Where it is."""
    then: Placement | None
    """Where the plan puts it, when that differs."""
    wait: Wait | None
    queue: tuple[str, ...]
    """Everybody who waits in its group, in order."""
    needs: tuple[NeedFit, ...]
    refused: tuple[str, ...]
    """Why guards hold back what the plan does with it."""
    nodes: Mapping[str, NodeInfo]


def explanation_sections(found: Explanation, most: int = 8) -> list[Section]:
    """The report; `most`: nodes to show for a session that waits."""
    shown = [Section(f"{found.id}  {found.phase or 'not applied'}", tuple(_status_lines(found)))]
    if found.now is not None:
        shown += _placement_sections(
            "Where it was" if found.phase in ENDED else "Where it is", found.now, found
        )
    if found.then is not None:
        shown += _placement_sections("Where the plan puts it", found.then, found)
    if found.wait is not None:
        shown.append(Section("Why it waits", tuple(_queue_lines(found.wait, found)), 2))
        shown += [_nearness_section(need, most) for need in found.needs]
    return shown


def _status_lines(found: Explanation) -> Iterator[str]:
    if found.reason:
        yield found.reason
    if found.phase == "ERROR" and not found.plan:
        yield f"bai apply --replace {found.id} starts it again"
    if found.plan:
        yield f"bai apply would {found.plan}"
    for line in found.refused:
        yield f"refused: {clean(line)}"


def _placement_sections(title: str, placement: Placement, found: Explanation) -> Iterator[Section]:
    for kernel in placement.kernels:
        rows = tuple(_kernel_rows(kernel, found.nodes.get(kernel.node)))
        yield Section(f"{title}: {clean(kernel.kernel)} on {clean(kernel.node)}", (Table((), rows),), 2)
    yield Section("Why there", tuple(_choice_lines(placement, found)), 2)


def _kernel_rows(kernel: KernelPlacement, node: NodeInfo | None) -> Iterator[tuple[str, str]]:
    yield "NUMA nodes", ", ".join(map(str, numa_nodes(kernel, node))) or "any"
    if kernel.cpus:
        yield "cores", f"{format_cpus(kernel.cpus)} ({plural(kernel.cpu_milli // 1000, 'core')}, exclusive)"
    else:
        yield "cores", f"{format_milli(kernel.cpu_milli)}, shared"
    yield "memory", kernel_memory(kernel)
    for grant in kernel.devices:
        yield _device_row(grant, node)
    for nic in kernel.nics:
        known = {each.id: each for each in node.hardware.nics}.get(nic) if node else None
        yield (
            f"nic {nic}",
            ", ".join(part for part in ((known.pci or "") if known else "", _location(known)) if part),
        )


def _device_row(grant: DeviceGrant, node: NodeInfo | None) -> tuple[str, str]:
    part = "" if grant.milli >= 1000 else f"{format_milli(grant.milli)} of it"
    gpus = node.hardware.gpus if node else ()
    for gpu in gpus:
        if grant.id == gpu.id or any(grant.id == one.id for one in gpu.mig_devices):
            if is_anonymous(grant.id):
                which = f"counted as {grant.id}: which one it is, the kubelet chooses"
                return f"any {slots.amount_text(grant.slot, 1)}", ", ".join(filter(None, (gpu.model, which)))
            words = (gpu.pci or "PCI id unknown", gpu.model, grant.id, _location(gpu), part)
            return f"gpu {gpu.index}", ", ".join(dict.fromkeys(word for word in words if word))
    return grant.slot, ", ".join(word for word in (grant.id, part) if word)


def _location(device: object) -> str:
    numa = getattr(device, "numa_node", None)
    return f"NUMA node {numa}" if numa is not None else ""


def numa_nodes(kernel: KernelPlacement, node: NodeInfo | None) -> list[int]:
    """Every NUMA node that a kernel touches, by its cores, memory or devices."""
    found = {part.node for part in kernel.parts} | set(kernel.memory_nodes)
    ids = {grant.id for grant in kernel.devices}
    if node is not None:
        cpus = set(kernel.cpus)
        found |= {one.id for one in node.hardware.numa_nodes if cpus & set(one.cpus)}
        found |= {gpu.numa_node for gpu in node.hardware.gpus if gpu.id in ids and gpu.numa_node is not None}
    return sorted(found)


def _choice_lines(placement: Placement, found: Explanation) -> Iterator[str]:
    choice = placement.choice
    if choice is None:
        yield "why it was put there is not recorded (its record was made from what runs)"
        return
    meaning = STRATEGIES.get(choice.strategy, "is a plugin")
    yield f"group {placement.group or found.group} selects by {choice.strategy}: it {meaning}"
    yield f"score: {choice.score}"
    yield f"next best: {choice.runner_up}" if choice.runner_up else "no other node could take it"
    yield from _locality_lines(choice)
    if any(is_anonymous(grant.id) for kernel in placement.kernels for grant in kernel.devices):
        yield "where its GPUs lie, and how they are connected, nobody tells: a device plugin counts them"


def _locality_lines(choice: Choice) -> Iterator[str]:
    if choice.numa_nodes > 1:
        yield f"over {choice.numa_nodes} NUMA nodes: its policy spreads it, or no fewer could hold it"
    else:
        yield "all on one NUMA node"
    if choice.detail:
        yield choice.detail
    if choice.connection:
        yield f"how its devices are connected: {choice.connection}"


def _queue_lines(wait: Wait, found: Explanation) -> Iterator[str]:
    if wait.position:
        yield f"{wait.position} of {len(found.queue)} in the queue of group {wait.group}"
        ahead = found.queue[: wait.position - 1]
        if ahead:
            yield f"before it: {join_limited(map(short_name, ahead))}"
    yield from wait_lines(wait)


def _nearness_section(need: NeedFit, most: int) -> Section:
    count = f", {need.count} of these" if need.count > 1 else ""
    rows = tuple(_node_row(view) for view in need.nodes[:most])
    parts: list[str | Table] = [Table(("node", "is", "what it lacks", "who is there"), rows)] if rows else []
    rest = Counter(VERDICTS[view.verdict] for view in need.nodes[most:])
    if rest:
        kinds = ", ".join(f"{number} {word}" for word, number in rest.items())
        parts.append(f"and {plural(sum(rest.values()), 'more node')}: {kinds}")
    return Section(f"How close the nodes come to one with {need.words}{count}", tuple(parts), 2)


def _holder_words(identity: str) -> str:
    """A session by its name; `held for p/web`, of a place for a replica to come."""
    if ref_of(identity).kind != "Headroom":
        return short_name(identity)
    return f"held for {short_name(place_service(identity))}"


def _node_row(view: NodeFit) -> tuple[str, str, str, str]:
    lacks = "; ".join(lack.message for lack in view.lacks) or view.note
    return view.node, VERDICTS[view.verdict], lacks, join_limited(map(_holder_words, view.holders), 3)
