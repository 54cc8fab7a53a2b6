"""Services in words and as JSON: replicas, generations, which of them gets how much."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.text import Text

from bai.render.humanize import clean, duration, iso_time
from bai.render.plan.services import (
    STYLES,
    headroom_words,
    phase_words,
    progress_words,
    ready_count,
    updated_count,
)
from bai.render.resources.apps import apps_json
from bai.render.resources.status import UNAPPLIED
from reconciler.values.services.state import NO_STATE, ServiceState
from schemas.values.resource_ref import ref_of

if TYPE_CHECKING:
    from reconciler.values.apps.app import App
    from reconciler.values.services.state import RolloutOrder, ServiceGeneration
    from reconciler.values.services.status import ReplicaStatus, ServiceStatus
    from reconciler.values.state import Existing

COLUMNS = ("name", "project", "ready", "updated", "held", "generation", "stable", "status", "scale", "url")
PHASE_STYLES = {"ready": "green", "unready": "red", "ended": "red", "away": "yellow", "waiting": "yellow"}
"""By the phase of a replica."""


@dataclass(frozen=True, slots=True)
class ServiceFacts:
    """A service as it stands. `now`: seconds since the epoch."""

    id: str
    now: float
    written: bool = True
    """Whether there is a document of it."""
    item: Existing | None = None
    status: ServiceStatus | None = None
    """None where no plan has come to it."""
    nodes: Mapping[str, str] = field(default_factory=dict)
    """Replica (identity) → the nodes that it is on, in words."""
    apps: tuple[App, ...] = ()
    """With the URLs of the service."""
    order: RolloutOrder | None = None
    """That holds: what somebody wants in place of the document."""

    @property
    def state(self) -> ServiceState:
        return self.item.recorded.service if self.item is not None else NO_STATE


def service_cells(found: ServiceFacts) -> tuple[str, ...]:
    """By COLUMNS."""
    ref, status = ref_of(found.id), found.status
    urls = " ".join(app.url for app in found.apps if app.url)
    if status is None:
        return (ref.name, ref.project, "", "", "", "", found.state.stable, _unplanned_words(found), "", urls)
    return (
        ref.name,
        ref.project,
        f"{ready_count(status)}/{status.wanted}",
        str(updated_count(status)),
        f"{len(status.held)}/{status.headroom}" if status.headroom else "",
        status.target,
        status.stable,
        phase_words(status),
        clean(status.scale),
        urls,
    )


def _unplanned_words(found: ServiceFacts) -> str:
    if not found.written:
        return "no longer in the repository"
    return UNAPPLIED if found.item is None else "not planned yet"


def service_lines(found: ServiceFacts) -> Iterator[Text]:
    """What `bai describe` has of it beyond other resources."""
    yield Text("")
    yield from _rollout(found)
    yield from _replicas(found)
    yield from _generations(found)
    yield from _traffic(found)


def _rollout(found: ServiceFacts) -> Iterator[Text]:
    yield Text("Rollout", "bold underline")
    status = found.status
    if status is None:
        yield Text(f"  {_unplanned_words(found)}")
    else:
        yield Text(f"  {phase_words(status)}", STYLES.get(status.phase, ""))
        yield Text(f"  replicas    {progress_words(status)}, {status.wanted} wanted")
        if status.scale:
            yield Text(f"  scale       {clean(status.scale)}")
        if status.headroom:
            yield Text(f"  head-room   {headroom_words(status)}")
        yield Text(f"  generation  {clean(status.target)}{_generation_note(status)}")
        yield Text(f"  stable      {clean(status.stable) or 'none was complete so far'}")
    if found.order is not None:
        yield Text(f"  order       {order_words(found)}", "yellow")


def _generation_note(status: ServiceStatus) -> str:
    return "" if status.target == status.latest else f" (its document says {clean(status.latest)})"


def order_words(found: ServiceFacts) -> str:
    """Who wants which generation, since when, and how that ends; empty where nobody does."""
    order = found.order
    if order is None:
        return ""
    by = f" by {clean(order.actor)}" if order.actor else ""
    return (
        f"{clean(order.generation)} in place of {clean(order.against)},{by} since {iso_time(order.at)}; "
        f"`bai rollout resume {command_name(found.id)}` ends it"
    )


def command_name(identity: str) -> str:
    """A service as commands are given it: `service/team/chat`."""
    return f"service/{clean(ref_of(identity).qualified_name)}"


def _replicas(found: ServiceFacts) -> Iterator[Text]:
    replicas = found.status.replicas if found.status is not None else ()
    if not replicas:
        return
    yield Text("")
    yield Text("Replicas", "bold underline")
    for each in replicas:
        line = Text(f"  {clean(ref_of(each.session).name)}", "bold")
        line.append(f"  {each.phase}", f"not bold {PHASE_STYLES.get(each.phase, 'default')}")
        yield line.append(replica_note(found, each), "not bold default")
        if each.why:
            yield Text(f"    {clean(each.why)}")


def replica_note(found: ServiceFacts, each: ReplicaStatus) -> str:
    """` on n1, generation 9d01aa42, 25 % of requests`."""
    node = found.nodes.get(each.session, "")
    where = f" on {clean(node)}" if node else ""
    total = sum(one.weight for one in found.status.replicas) if found.status is not None else 0.0
    share = f", {_percent(each.weight, total)} of requests" if total else ""
    return f"{where}, generation {clean(each.generation)}{share}"


def _generations(found: ServiceFacts) -> Iterator[Text]:
    if not found.state.generations:
        return
    yield Text("")
    yield Text("Generations", "bold underline")
    for each in reversed(found.state.generations):
        age = duration(found.now - each.since)
        commit = f"commit {clean(each.commit[:12])}" if each.commit else "of working files"
        notes = ", ".join(generation_notes(found, each))
        line = Text(f"  {clean(each.name)}", "bold").append(f"  {commit}, {age} old", "not bold")
        yield line.append(f"  {notes}", "not bold dim") if notes else line
        if why := found.state.failed.get(each.name):
            yield Text(f"    given up: {clean(why)}", "red")


def generation_notes(found: ServiceFacts, each: ServiceGeneration) -> Iterator[str]:
    """What a generation is: `latest`, `stable`, ..."""
    status = found.status
    if status is not None and each.name == status.latest:
        yield "what its document says"
    if each.name == (status.stable if status is not None else found.state.stable):
        yield "stable"
    if status is not None and each.name == status.target != status.latest:
        yield "what it goes to"


def _traffic(found: ServiceFacts) -> Iterator[Text]:
    shares = traffic_shares(found)
    if not shares:
        return
    yield Text("")
    yield Text("Traffic", "bold underline")
    total = sum(shares.values())
    for name, weight in shares.items():
        yield Text(f"  {clean(name)}  {_percent(weight, total)}")


def traffic_shares(found: ServiceFacts) -> Mapping[str, float]:
    """Generation → its weight, of those that get requests."""
    weights: dict[str, float] = {}
    for each in found.status.replicas if found.status is not None else ():
        weights[each.generation] = weights.get(each.generation, 0.0) + each.weight
    return {name: weight for name, weight in weights.items() if weight > 0}


def _percent(weight: float, total: float) -> str:
    return f"{100 * weight / total:.0f} %"


def service_json(found: ServiceFacts) -> dict[str, Any]:
    """What `bai get` and `bai describe --format json` have of it beyond other resources."""
    return {
        "status": status_json(found.status),
        "replicas": [
            {
                "session": each.session,
                "generation": each.generation,
                "phase": each.phase,
                "node": found.nodes.get(each.session, ""),
                "weight": each.weight,
                "why": each.why,
            }
            for each in (found.status.replicas if found.status is not None else ())
        ],
        "generations": [
            {
                "name": each.name,
                "commit": each.commit,
                "since": iso_time(each.since),
                "stable": each.name == found.state.stable,
                "failed": found.state.failed.get(each.name, ""),
            }
            for each in found.state.generations
        ],
        "held": held_json(found.status),
        "order": order_json(found.order),
        "apps": apps_json(found.apps),
    }


def held_json(status: ServiceStatus | None) -> list[dict[str, Any]]:
    """The places that are held for replicas to come."""
    return [
        {
            "containers": [
                {
                    "name": kernel.kernel,
                    "node": kernel.node,
                    "cpus": list(kernel.cpus),
                    "cpuMilli": kernel.cpu_milli,
                    "memory": kernel.memory,
                    "memoryNodes": list(kernel.memory_nodes),
                    "devices": [grant.id for grant in kernel.devices],
                }
                for kernel in each.placement.kernels
            ],
            "lent": list(each.lent),
        }
        for each in (status.held if status is not None else ())
    ]


def status_json(status: ServiceStatus | None) -> dict[str, Any] | None:
    if status is None:
        return None
    return {
        "phase": status.phase,
        "why": status.why,
        "wanted": status.wanted,
        "scale": status.scale,
        "headroom": status.headroom,
        "unheld": status.unheld,
        "ready": ready_count(status),
        "updated": updated_count(status),
        "latest": status.latest,
        "target": status.target,
        "stable": status.stable,
    }


def order_json(order: RolloutOrder | None) -> dict[str, Any] | None:
    if order is None:
        return None
    return {
        "generation": order.generation,
        "against": order.against,
        "by": order.actor,
        "at": iso_time(order.at),
    }
