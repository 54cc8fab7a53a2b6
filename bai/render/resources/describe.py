"""One resource in full: for a person as text, for a program as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.text import Text

from bai.render.humanize import clean, iso_time, plural, size
from bai.render.nodes.picture import node_picture
from bai.render.nodes.picture_text import ASCII, draw_node
from bai.render.nodes.rows import running_placements
from bai.render.plan.placements import kernel_cores, kernel_devices, kernel_memory
from bai.render.plan.waits import wait_lines
from bai.render.resources.apps import app_place, app_state, apps_json, openers, unbound_port
from bai.render.resources.document import document_lines
from bai.render.resources.services import ServiceFacts, service_json, service_lines
from bai.render.resources.status import UNAPPLIED, kernels_json, session_note
from bai.render.resources.volumes import volume_json, volume_lines
from schemas.hardware.cpuset import format_cpus
from schemas.values.resource_ref import ref_of

if TYPE_CHECKING:
    from planner.model.types import KernelPlacement, NodeInfo, Wait
    from providers.base import Observed
    from providers.storage.base import FolderState, VolumeFolder
    from reconciler.values.apps.app import App
    from reconciler.values.records import Event
    from reconciler.values.state import Actual, Existing

MOST_NAMES = 14
"""Names of one line; `--format json` has them all."""


@dataclass(frozen=True, slots=True)
class Description:
    """What is known about one resource; `place` is where its document stands, empty when it is gone."""

    id: str
    place: str
    document: Mapping[str, object]
    digest: str
    item: Existing | None
    events: tuple[Event, ...]
    wait: Wait | None
    node: NodeInfo | None
    actual: Actual
    folder: VolumeFolder | None = None
    """Of a volume: where it is."""
    seen: FolderState | None = None
    """Of a volume: what is there."""
    facts: Mapping[str, object] = field(default_factory=dict)
    """Of a node: its profile. Of a profile: its roles and nodes."""
    apps: tuple[App, ...] = ()
    app_ports: tuple[str, ...] = ()
    """Names of ports that would have a URL where there is an AppProxy."""
    unbound_ports: Mapping[int, str] = field(default_factory=dict)
    """Ports for apps that the server could not listen at, to why."""
    service: ServiceFacts | None = None
    """Of a service: how it stands."""


def description_lines(found: Description) -> Iterator[Text]:
    """The description as lines."""
    yield from _head(found)
    yield from _folder(found)
    yield from _node(found)
    yield from service_lines(found.service) if found.service is not None else ()
    yield from _apps(found)
    yield from _kernels(found)
    yield from _waits(found)
    yield from _document(found)
    yield from _events(found)


def _head(found: Description) -> Iterator[Text]:
    item = found.item
    phase = UNAPPLIED if item is None else item.phase
    yield Text(clean(found.id), "bold").append(f"  {phase}".rstrip(), "not bold cyan")
    yield Text(f"  document    {found.place or 'no longer in the repository'}")
    yield from _facts(found)
    if item is None:
        return
    record = item.recorded
    changed = ", changed since" if found.digest and found.digest != record.digest else ""
    yield Text(f"  generation  {record.generation} (digest {record.digest}{changed})")
    if record.commit:
        yield Text(f"  commit      {clean(record.commit)}")
    if record.protected:
        yield Text("  protected   against deletion")
    times = {"enqueued": record.enqueued_at, "started": record.started_at, "finished": item.finished_at}
    for word, at in times.items():
        if at is not None:
            yield Text(f"  {word.ljust(11)} {iso_time(at)}")
    note = session_note(item)
    if note:
        yield Text(f"  state       {note}")
    if record.placement and record.placement.choice:
        choice = record.placement.choice
        yield Text(
            f"  chosen by   {clean(choice.strategy)} {clean(choice.score)} {clean(choice.notes)}".rstrip()
        )


def _facts(found: Description) -> Iterator[Text]:
    words = {"filledIn": "filled in"}
    for name, value in found.facts.items():
        if isinstance(value, Mapping):
            shown = ", ".join(f"{key} {one}" for key, one in value.items())
        elif isinstance(value, list):
            more = f" and {len(value) - MOST_NAMES} more" if len(value) > MOST_NAMES else ""
            shown = (", ".join(map(str, value[:MOST_NAMES])) or "none") + more
        else:
            shown = str(value)
        yield Text(f"  {words.get(name, name).ljust(11)} {clean(shown)}")


def _folder(found: Description) -> Iterator[Text]:
    if found.folder is not None:
        yield from (Text(f"  {line}") for line in volume_lines(found.folder, found.seen))


def _node(found: Description) -> Iterator[Text]:
    if found.node is None:
        return
    yield Text("")
    yield from draw_node(node_picture(found.node, running_placements(found.actual)), ASCII, most_cells=64)


def _apps(found: Description) -> Iterator[Text]:
    if not found.app_ports:
        return
    yield Text("")
    yield Text("Apps", "bold underline")
    for app in found.apps:
        yield Text(f"  {clean(app.name)}", "bold").append(f"  {app_place(app)}", "not bold")
        yield Text(f"    state   {app_state(app)}")
        if why := unbound_port(app, found.unbound_ports):
            yield Text(f"    closed  {clean(why)}")
        yield Text(f"    open to {clean(openers(app))}")
    if not found.apps:
        yield Text("  no URL: the cluster has no AppProxy")
    if not found.apps and ref_of(found.id).kind == "Session":
        ref, ports = ref_of(found.id), clean(" ".join(found.app_ports))
        yield Text(f"  here    bai port-forward {clean(ref.qualified_name)} {ports}")


def _kernels(found: Description) -> Iterator[Text]:
    item = found.item
    if item is None or not (item.kernels or item.recorded.placement):
        return
    yield Text("")
    yield Text("Kernels", "bold underline")
    seen = {kernel.labels.kernel: kernel for kernel in item.kernels}
    placed = item.recorded.placement.kernels if item.recorded.placement else ()
    for kernel in placed:
        yield from _kernel_lines(kernel, seen.get(kernel.kernel))
    for stray in item.strays:
        yield Text(f"  {clean(stray.id)}: {stray.state}, of generation {stray.labels.generation}", "yellow")


def _kernel_lines(kernel: KernelPlacement, found: Observed | None) -> Iterator[Text]:
    state = found.state if found else "not there"
    pid = f", process {found.pid}" if found and found.pid else ""
    yield Text(f"  {clean(kernel.kernel)}", "bold").append(
        f" on {clean(kernel.node)}: {state}{pid}", "not bold"
    )
    given = f"cores {kernel_cores(kernel)}, memory {kernel_memory(kernel)}"
    given += f", devices {kernel_devices(kernel, None)}"
    yield Text(f"    given   {given}")
    if kernel.network:
        yield Text(f"    network {_network_text(kernel)}")
    if found is None:
        return
    yield Text(f"    id      {clean(found.id)}")
    if found.state in ("running", "stopping"):
        yield Text(f"    has     {_observed_text(found)}")
        if kernel.cpus and found.cpus and set(kernel.cpus) != set(found.cpus):
            yield Text("    ! the cores it has are not those it was given", "red")
    if found.exit_code is not None:
        why = f" ({clean(found.reason)})" if found.reason else ""
        yield Text(f"    exit    {found.exit_code}{why}")
    if found.restarts:
        yield Text(f"    restarted {plural(found.restarts, 'time')}")


def _network_text(kernel: KernelPlacement) -> str:
    """How it is connected, and the ports of its node that it holds."""
    words = {
        "default": "the engine's own",
        "host": "the node's own",
        "bridge": "a bridge of its session's own",
        "pods": "the pods' own",
    }
    ports = [f"{port.name} at port {port.on} of {kernel.node}" for port in kernel.ports]
    return clean("; ".join([words.get(kernel.network, "an overlay of its session's own"), *ports]))


def _observed_text(found: Observed) -> str:
    """What the system says about the running kernel."""
    parts = [f"cores {format_cpus(found.cpus) or 'unknown'}"]
    if found.memory_nodes:
        parts.append(f"memory of numa{format_cpus(found.memory_nodes)}")
    parts.append(f"memory limit {size(found.memory) if found.memory else 'none'}")
    if found.pids:
        parts.append(f"at most {plural(found.pids, 'process', 'processes')}")
    if found.scratch:
        parts.append(f"at most {size(found.scratch)} of scratch")
    return ", ".join(parts)


def _waits(found: Description) -> Iterator[Text]:
    if found.wait is None:
        return
    yield Text("")
    place = f" at position {found.wait.position}" if found.wait.position else ""
    yield Text(f"Waits{place} in group {clean(found.wait.group)}", "bold underline")
    for line in wait_lines(found.wait):
        yield Text(f"  {line}")


def _document(found: Description) -> Iterator[Text]:
    if not found.document:
        return
    yield Text("")
    yield Text("Document", "bold underline")
    for line in document_lines(found.document):
        yield Text(f"  {line}")


def _events(found: Description) -> Iterator[Text]:
    if not found.events:
        return
    yield Text("")
    yield Text("Events", "bold underline")
    for event in found.events:
        change = f"{event.before or '-'} -> {event.after or '-'}"
        by = f" by {clean(event.actor)}" if event.actor else ""
        yield Text(f"  {iso_time(event.at)}  {change}  {clean(event.cause)}{by}")


def description_json(found: Description) -> dict[str, object]:
    """The fields of `bai describe --format json`."""
    item = found.item
    shown: dict[str, object] = {
        "id": found.id,
        "place": found.place,
        "document": dict(found.document),
        "digest": found.digest,
        "applied": item is not None,
    }
    if item is not None:
        shown |= {
            "phase": item.phase,
            "generation": item.recorded.generation,
            "appliedDigest": item.recorded.digest,
            "commit": item.recorded.commit,
            "protected": item.protected,
            "result": item.result,
            "reason": item.reason,
            "kernels": [*_kernels_json(item)],
        }
    if found.service is not None:
        shown |= service_json(found.service)
    if found.folder is not None:
        shown["folder"] = volume_json(found.folder, found.seen)
    if found.app_ports:
        shown["apps"] = [
            {
                **shown_app,
                "state": app_state(app),
                **({"closed": why} if (why := unbound_port(app, found.unbound_ports)) else {}),
            }
            for app, shown_app in zip(found.apps, apps_json(found.apps), strict=True)
        ]
    shown |= found.facts
    shown["waits"] = wait_lines(found.wait) if found.wait else []
    shown["events"] = [
        {"at": iso_time(e.at), "before": e.before, "after": e.after, "cause": e.cause, "actor": e.actor}
        for e in found.events
    ]
    return shown


def _kernels_json(item: Existing) -> Iterator[dict[str, object]]:
    seen = {kernel.labels.kernel: kernel for kernel in item.kernels}
    for row in kernels_json(item):
        found = seen.get(str(row["name"]))
        observed: object = None
        if found is not None:
            observed = {
                "cpus": list(found.cpus),
                "memoryNodes": list(found.memory_nodes),
                "memory": found.memory,
                "pids": found.pids,
                "scratch": found.scratch,
                "restarts": found.restarts,
                "reason": found.reason,
            }
        yield {**row, "observed": observed}
