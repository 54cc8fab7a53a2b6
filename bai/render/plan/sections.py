"""What a Plan has to say, in words and order, for all renderers alike; no layout."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bai.render.humanize import (
    clean,
    format_milli,
    iso_time,
    join_limited,
    number_ranges,
    plural,
    short_name,
    size,
    truncate_around_difference,
)
from bai.render.nodes.picture import HeldPlacement, NodePicture, node_picture
from bai.render.plan.images import pull_line
from bai.render.plan.node_rollout import node_details
from planner.model.types import KernelPlacement, NodeInfo, Placement, Wait
from reconciler.guards.judge import violation_text
from reconciler.values.plan import Action, Plan
from reconciler.values.sides import ImageSide
from schemas.hardware.cpuset import format_cpus
from schemas.values.resource_ref import ref_of

SYMBOLS = {
    "create": "+", "update": "~", "replace": "-/+", "delete": "-", "queue": "?", "stop": "x",
    "provision": "*",
}  # fmt: skip
MOST_REFUSALS = 20
REFUSED = "Refused: bai apply does not carry this out"
_SUMMARY = (
    ("provision", "to provision"),
    ("create", "to create"),
    ("update", "to update in place"),
    ("replace", "to replace"),
    ("delete", "to delete"),
    ("queue", "to queue"),
    ("stop", "to stop"),
)


@dataclass(frozen=True, slots=True)
class ChangeEntry:
    """One line of the list of changes, with what belongs under it."""

    kind: str
    """`create`, `update`, `replace`, `delete`, `queue` for a session that waits, `stop` for
    one that had its time, `provision` for a node."""
    names: tuple[str, ...]
    """Identities; several where resources without a life of their own are told together."""
    why: str
    details: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        if len(self.names) == 1:
            return clean(self.names[0])
        kind = ref_of(self.names[0]).kind
        return f"{kind} {join_limited(map(short_name, self.names))}"


@dataclass(frozen=True, slots=True)
class PlacementRow:
    """One kernel's place, in words."""

    session: str
    kernel: str
    node: str
    cores: str
    memory: str
    devices: str
    why: str


def change_kind(action: Action) -> str:
    """The verb, or `queue` where a session is only put into its queue, `stop` where it is stopped for
    good, `provision` where a node is brought to its profile."""
    before, after = action.session_before, action.session_after
    if action.provision:
        return "provision"
    ends = after is not None and after.phase == "TERMINATED"
    if ends and before is not None and before.phase == "RUNNING" and action.verb == "update":
        return "stop"
    if action.verb in ("create", "update") and after and after.phase == "PENDING" and not after.placement:
        return "queue"
    return action.verb


def plan_summary(plan: Plan) -> str:
    """`Plan: 3 to create, 1 to update in place; 1 waits.`"""
    counts = Counter(change_kind(action) for action in plan.changes)
    waits = f"; {len(plan.waits)} {'waits' if len(plan.waits) == 1 else 'wait'}" if plan.waits else ""
    if not counts:
        return f"No changes{waits}."
    parts = [f"{counts[name]} {word}{_later_nodes(plan, name)}" for name, word in _SUMMARY if counts[name]]
    return f"Plan: {', '.join(parts)}{waits}."


def _later_nodes(plan: Plan, kind: str) -> str:
    """Nodes that follow in later waves."""
    if kind != "provision" or plan.rollout is None or not plan.rollout.later:
        return ""
    return f" (then {len(plan.rollout.nodes) - len(plan.rollout.wave)} more)"


def violation_lines(plan: Plan) -> list[str]:
    """Why it is not carried out, a line each; no more than a reader needs."""
    more = len(plan.violations) - MOST_REFUSALS
    lines = [
        clean(violation_text(one) + (f" ({one.hint})" if one.hint else ""))
        for one in plan.violations[:MOST_REFUSALS]
    ]
    return [*lines, f"and {more} more"] if more > 0 else lines


def override_lines(plan: Plan) -> list[str]:
    """What is put aside by annotations, a line each."""
    found = []
    for one in plan.overridden:
        what = f"{one.guard} is overridden for {one.resource} until {one.until}"
        found.append(clean(f"Policy/{one.policy}: {what}: {one.reason}"))
    return found


def plan_source(plan: Plan) -> str:
    """`cluster lab at 3f2a9c01d2e4`, or where the documents are uncommitted, their digest."""
    source = f"commit {clean(plan.commit[:12])}" if plan.commit else f"working files {clean(plan.tree[:12])}"
    targets = f", only {join_limited(map(clean, plan.targets))}" if plan.targets else ""
    return f"cluster {clean(plan.cluster)}, {source}{targets}"


def change_entries(plan: Plan) -> list[ChangeEntry]:
    """The changes in the plan's order; neighbours of one kind without details are told together."""
    found: list[ChangeEntry] = []
    for action in plan.changes:
        entry = _change_entry(action, plan)
        last = found[-1] if found else None
        if last and _is_bare(entry) and _is_bare(last) and _group_key(last) == _group_key(entry):
            found[-1] = ChangeEntry(kind=last.kind, names=last.names + entry.names, why=last.why)
        else:
            found.append(entry)
    return found


def _change_entry(action: Action, plan: Plan) -> ChangeEntry:
    return ChangeEntry(
        kind=change_kind(action),
        names=(action.id,),
        why=clean(action.why),
        details=(*_detail_lines(action), *node_details(action, plan)),
        warnings=tuple(clean(warning) for warning in action.warnings),
    )


def _is_bare(entry: ChangeEntry) -> bool:
    lone = ref_of(entry.names[0]).kind not in ("Session", "Kernel")
    return lone and not entry.details and not entry.warnings


def _group_key(entry: ChangeEntry) -> tuple[str, str, str]:
    return entry.kind, ref_of(entry.names[0]).kind, entry.why


def _detail_lines(action: Action) -> Iterator[str]:
    for change in action.changes:
        none = "(none)"
        before, after = truncate_around_difference(
            none if change.before is None else change.before,
            none if change.after is None else change.after,
            200,
        )
        forces = "  # forces replacement" if change.forces else ""
        yield f"{clean(change.path)}: {before} -> {after}{forces}"
    kernels = action.session_before.kernels if action.session_before else ()
    if kernels and change_kind(action) in ("delete", "queue", "stop"):
        yield f"stops {plural(len(kernels), 'kernel')}: {join_limited(map(clean, kernels))}"
    yield from _scratch_lines(action)
    yield from _image_lines(action)
    if isinstance(action.after, ImageSide):
        yield from map(pull_line, action.after.pulls)
    if action.notice:
        with_signal = f"told by {clean(action.notice.signal)}, then " if action.notice.signal else ""
        yield f"{with_signal}{action.notice.grace:g} s to save its work"
    if action.protected:
        yield "protected against deletion"


def _scratch_lines(action: Action) -> Iterator[str]:
    """`scratch at most 20GiB`, with the kernels where they differ."""
    kernels: dict[int, list[str]] = {}
    for spec in action.session_after.specs if action.session_after else ():
        kernels.setdefault(spec.scratch, []).append(spec.labels.kernel)
    for most, names in kernels.items():
        whose = f" for {join_limited(map(clean, names))}" if len(kernels) > 1 else ""
        if most:
            yield f"scratch at most {size(most)}{whose}"


def _image_lines(action: Action) -> Iterator[str]:
    """`image r.io/tool@sha256:...` of what a session is started from, where its nodes fetch images."""
    if action.session_after:
        for image in sorted({pull.image for pull in action.session_after.pulls}):
            yield f"image {clean(image)}" + ("" if "@" in image else ", not pinned by a digest")


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
    held = held_placements(plan)
    names = {kernel.node for item in held if item.new for kernel in item.placement.kernels}
    return [node_picture(nodes[name], held) for name in sorted(names) if name in nodes]


def placement_rows(plan: Plan, nodes: Mapping[str, NodeInfo]) -> list[PlacementRow]:
    """Where this plan puts each kernel, and why there."""
    return [
        _placement_row(placement, kernel, nodes.get(kernel.node), first=at == 0)
        for placement in new_placements(plan)
        for at, kernel in enumerate(placement.kernels)
    ]


def _placement_row(
    placement: Placement, kernel: KernelPlacement, node: NodeInfo | None, *, first: bool
) -> PlacementRow:
    return PlacementRow(
        session=short_name(placement.session) if first else "",
        kernel=clean(kernel.kernel),
        node=clean(kernel.node),
        cores=kernel_cores(kernel),
        memory=kernel_memory(kernel),
        devices=kernel_devices(kernel, node),
        why=_placement_reason(placement) if first else "",
    )


def kernel_cores(kernel: KernelPlacement) -> str:
    """`0-7, 16-23`, or the shared amount."""
    if kernel.cpus:
        return format_cpus(kernel.cpus).replace(",", ", ")
    return f"{format_milli(kernel.cpu_milli)} shared" if kernel.cpu_milli else "-"


def kernel_memory(kernel: KernelPlacement) -> str:
    """`64GiB on numa0`."""
    where = f" on numa{format_cpus(kernel.memory_nodes)}" if kernel.memory_nodes else ""
    return f"{size(kernel.memory)}{where}" if kernel.memory else "-"


def kernel_devices(kernel: KernelPlacement, node: NodeInfo | None) -> str:
    """`gpu 0, 1`, `half of gpu 3` as `0.5 of gpu 3`; ids where the node's hardware is not known."""
    numbers = {gpu.id: gpu.index for gpu in node.hardware.gpus} if node else {}
    whole = [numbers.get(grant.id, grant.id) for grant in kernel.devices if grant.milli >= 1000]
    parts = [
        f"{format_milli(grant.milli)} of gpu {clean(str(numbers.get(grant.id, grant.id)))}"
        for grant in kernel.devices
        if grant.milli < 1000
    ]
    if whole:
        parts.insert(0, f"gpu {clean(number_ranges(whole))}")
    if kernel.nics:
        parts.append(f"nic {clean(number_ranges(kernel.nics))}")
    return "; ".join(parts) or "-"


def _placement_reason(placement: Placement) -> str:
    return "; ".join(part for part in (_choice_text(placement), clean(_network_text(placement))) if part)


_NETWORKS = {
    "bridge": "a bridge of its own",
    "overlay": "an overlay of its own",
    "host": "its nodes' network",
}


def _network_text(placement: Placement) -> str:
    """Its network, where it is not the engine's own, and where its ports are reached."""
    networks = sorted({_NETWORKS[part.network] for part in placement.kernels if part.network in _NETWORKS})
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


def unreached_lines(plan: Plan) -> list[str]:
    """The nodes that did not answer, and since when."""
    lines = []
    for each in plan.unreached:
        since = f", since {iso_time(each.since)}" if each.since is not None else ""
        lines.append(
            f"{clean(each.node)} is not reached{since}: {clean(each.why)}; nothing is placed there, what "
            "may run there is left alone"
        )
    return lines


def wait_lines(wait: Wait) -> list[str]:
    """Why a session waits, one reason to a line, then what would end the wait."""
    lines = [f"{clean(reason.code)}: {clean(reason.message)}" for reason in wait.reasons]
    if wait.freed_by:
        lines.append(f"first freed by {clean(wait.freed_by)}")
    if wait.latest is not None:
        lines.append(f"fits at the latest at {iso_time(wait.latest)}")
    if wait.cut_short:
        lines.append("what would free it is not known: more runs and waits than the plan plays through")
    if wait.passed_over:
        lines.append("a later session was placed before it")
    return lines
