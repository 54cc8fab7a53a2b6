"""What is there, as rows of words: sessions with their phases, other resources with their records."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from bai.render.humanize import clean, duration, format_milli, iso_time, join_limited
from bai.render.plan.waits import wait_lines
from bai.render.resources.apps import apps_json
from planner.model.huge_pages import bytes_by_slot
from schemas.hardware.anonymous import is_anonymous
from schemas.values.resource_ref import ref_of

if TYPE_CHECKING:
    from planner.model.types import KernelPlacement, Wait
    from reconciler.values.apps.app import App
    from reconciler.values.state import Actual, Existing

UNAPPLIED = "not applied"


@dataclass(frozen=True, slots=True)
class SessionRow:
    """One session. Times are seconds since the epoch."""

    id: str
    phase: str
    ready: str
    nodes: str
    age: str
    about: str
    group: str = ""
    kernels: tuple[KernelPlacement, ...] = ()
    generation: int = 0
    seconds: float | None = None
    """Of its age; None where there is none yet."""
    gpu_milli: int = 0
    """Thousandths of devices that it was given."""

    @property
    def cores(self) -> str:
        from bai.render.plan.placements import kernel_cores

        return "; ".join(kernel_cores(kernel) for kernel in self.kernels)

    @property
    def memory(self) -> str:
        from bai.render.plan.placements import kernel_memory

        return "; ".join(kernel_memory(kernel) for kernel in self.kernels)

    @property
    def devices(self) -> str:
        from bai.render.plan.placements import counted_words

        grants = [grant for kernel in self.kernels for grant in kernel.devices]
        named = [
            clean(g.id) + ("" if g.milli >= 1000 else f" ({format_milli(g.milli)})")
            for g in grants
            if not is_anonymous(g.id)
        ]
        return join_limited((*named, *counted_words(grants)), 8)


class SessionFacts(NamedTuple):
    """One session before it is put into words: what it is chosen and sorted by. `item` is None where it was
    never applied; `now` in seconds since the epoch."""

    id: str
    phase: str
    item: Existing | None
    now: float

    @property
    def kernels(self) -> tuple[KernelPlacement, ...]:
        """Where they were placed."""
        placement = self.item.recorded.placement if self.item is not None else None
        return placement.kernels if placement is not None else ()

    @property
    def since(self) -> float | None:
        """When it started, else when it began to wait."""
        if self.item is None:
            return None
        record = self.item.recorded
        return record.started_at if record.started_at is not None else record.enqueued_at

    @property
    def seconds(self) -> float | None:
        """Of its age; None where there is none yet."""
        if self.item is None or self.since is None:
            return None
        ended = self.item.finished_at
        return (ended if ended is not None else self.now) - self.since

    @property
    def gpu_milli(self) -> int:
        """Thousandths of devices that it was given."""
        return sum(grant.milli for kernel in self.kernels for grant in kernel.devices)


def session_facts(
    actual: Actual, wanted: Iterable[str], now: float, only: Collection[str] | None = None
) -> list[SessionFacts]:
    """Every session that is wanted or is there, by identity; of `only`, where that is given."""
    there = actual.existing
    names = sorted(
        name
        for name in {*there, *wanted}
        if ref_of(name).kind == "Session" and (only is None or name in only)
    )
    return [SessionFacts(name, _phase(there.get(name)), there.get(name), now) for name in names]


def _phase(item: Existing | None) -> str:
    return UNAPPLIED if item is None else item.phase or item.recorded.phase


def session_rows(
    actual: Actual, wanted: Iterable[str], now: float, only: Collection[str] | None = None
) -> list[SessionRow]:
    """The same in words."""
    return list(map(session_row, session_facts(actual, wanted, now, only)))


def session_row(facts: SessionFacts) -> SessionRow:
    """A session in words."""
    item = facts.item
    if item is None:
        about = "`bai plan` says what apply would do"
        return SessionRow(id=facts.id, phase=facts.phase, ready="", nodes="", age="", about=about)
    record, kernels, seconds = item.recorded, facts.kernels, facts.seconds
    running = sum(kernel.state == "running" for kernel in item.kernels)
    return SessionRow(
        id=facts.id,
        phase=facts.phase,
        ready=f"{running}/{len(record.kernels)}" if record.kernels else "",
        nodes=join_limited(dict.fromkeys(kernel.node for kernel in kernels), 3),
        age="" if seconds is None else duration(seconds),
        about=session_note(item),
        group=record.placement.group if record.placement else "",
        kernels=kernels,
        generation=record.generation,
        seconds=seconds,
        gpu_milli=facts.gpu_milli,
    )


def session_note(item: Existing) -> str:
    """Result, exit codes that the reason does not tell, and the reason, in a few words."""
    parts = [item.result or item.recorded.result]
    codes = item.exit_codes or item.recorded.exit_codes
    shown_codes = [
        (name, code)
        for name, code in sorted(codes.items())
        if f"{name} exited with {code}" not in item.reason
    ]
    if any(code for _, code in shown_codes):
        parts.append("exit " + ", ".join(f"{clean(name)}={code}" for name, code in shown_codes))
    parts.append(clean(item.reason))
    if item.strays:
        parts.append(f"{len(item.strays)} of other generations")
    return "; ".join(part for part in parts if part)


def wait_line(wait: Wait | None) -> str:
    """Place in the queue, the first reason, and the forecast where there is one."""
    if wait is None or not wait.reasons:
        return ""
    place = f"{wait.position} in queue; " if wait.position else ""
    forecast = f"; starts at the latest at {iso_time(wait.latest)}" if wait.latest is not None else ""
    return place + wait_lines(wait)[0] + forecast


def session_json(
    row: SessionRow, item: Existing | None, wait: Wait | None = None, apps: Iterable[App] = ()
) -> dict[str, object]:
    """One session of `bai get --format json`."""
    shown: dict[str, object] = {"id": row.id, "kind": "Session", "applied": item is not None}
    shown["apps"] = apps_json(apps)
    if item is None:
        return shown
    record = item.recorded
    return shown | {
        "phase": row.phase,
        "generation": record.generation,
        "group": row.group,
        "result": item.result or record.result,
        "reason": item.reason,
        "exitCodes": dict(item.exit_codes or record.exit_codes),
        "enqueuedAt": iso_time(record.enqueued_at),
        "startedAt": iso_time(record.started_at),
        "finishedAt": iso_time(item.finished_at),
        "commit": record.commit,
        "waits": wait_lines(wait) if wait else [],
        "startsBy": iso_time(wait.latest) if wait else "",
        "missing": list(item.missing),
        "kernels": kernels_json(item),
    }


def kernels_json(item: Existing) -> list[dict[str, object]]:
    """Where each kernel was placed and how it is."""
    seen = {kernel.labels.kernel: kernel for kernel in item.kernels}
    placed = item.recorded.placement.kernels if item.recorded.placement else ()
    rows: list[dict[str, object]] = []
    for kernel in placed:
        found = seen.get(kernel.kernel)
        rows.append(
            {
                "name": kernel.kernel,
                "node": kernel.node,
                "cpus": list(kernel.cpus),
                "cpuMilli": kernel.cpu_milli,
                "memory": kernel.memory,
                "memoryNodes": list(kernel.memory_nodes),
                **({"hugepages": bytes_by_slot(kernel.hugepages)} if kernel.hugepages else {}),
                "devices": [{"id": g.id, "slot": g.slot, "milli": g.milli} for g in kernel.devices],
                "id": found.id if found else "",
                "state": found.state if found else "unknown",
                "pid": found.pid if found else None,
                "exitCode": found.exit_code if found else None,
            }
        )
    return rows


def resource_rows(actual: Actual, wanted: Mapping[str, str], kind: str) -> list[tuple[str, str, str]]:
    """Identity, state and generation of resources of `kind` (empty: all but sessions); `wanted`: digests."""
    names = sorted({*actual.existing, *wanted})
    rows = []
    for name in names:
        if ref_of(name).kind == "Session" or (kind and ref_of(name).kind != kind):
            continue
        item = actual.existing.get(name)
        rows.append(
            (name, _resource_state(item, wanted.get(name)), str(item.recorded.generation) if item else "")
        )
    return rows


def _resource_state(item: Existing | None, digest: str | None) -> str:
    if item is None:
        return UNAPPLIED
    if digest is None:
        return "no longer in the repository"
    return "as written" if item.recorded.digest == digest else "changed since it was applied"
