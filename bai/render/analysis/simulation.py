"""What a simulation found, policy beside policy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from bai.render.humanize import clean, duration
from bai.render.printout import Section, Table
from planner.model import slots
from planner.simulation.measures import Report, WaitStatistics

Reports = Sequence[tuple[str, Report]]
WIDEST = 72
"""Characters of all policies' names together that still stand above the columns."""
_SLOT_WORDS = {"devices": "devices", slots.CPU: "CPU", slots.MEMORY: "memory"}


def simulation_sections(reports: Reports) -> list[Section]:
    """The report: one column for each policy, then waiting times in detail."""
    named, key = _abbreviated(reports)
    names = tuple(name for name, _ in named)
    rows = tuple((label, *(read(one) for _, one in named)) for label, read in _comparison_rows(named))
    compared = "1 policy" if len(named) == 1 else f"{len(named)} policies"
    title = f"{slots.plural(named[0][1].sessions, 'session')} under {compared}"
    found = [Section(title, (*key, Table(("", *names), rows)))]
    for what, pick in (("project", lambda one: one.by_project), ("size", lambda one: one.by_size)):
        found += _wait_sections(f"Waiting times by {what}", what, named, pick)
    return found


def _abbreviated(reports: Reports) -> tuple[Reports, tuple[Table, ...]]:
    """Letters in place of names that would make the table too wide, and what they stand for."""
    if sum(len(name) for name, _ in reports) <= WIDEST:
        return reports, ()
    letters = [chr(ord("A") + at) for at in range(len(reports))]
    key = Table((), tuple((letter, clean(name)) for letter, (name, _) in zip(letters, reports, strict=True)))
    return [(letter, one) for letter, (_, one) in zip(letters, reports, strict=True)], (key,)


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _comparison_rows(reports: Reports) -> Iterator[tuple[str, Callable[[Report], str]]]:
    """What is compared: a label, and the value of one policy in words."""
    yield "finished", lambda one: str(one.finished)
    if any(one.running for _, one in reports):
        yield "still running", lambda one: str(one.running)
    if any(one.waiting for _, one in reports):
        yield "still waiting", _waiting_text
    if any(one.gave_up for _, one in reports):
        yield "gave up", lambda one: str(one.gave_up)
    yield "last start after", lambda one: duration(one.settled)
    yield "end after", lambda one: duration(one.span)
    for slot, word in _SLOT_WORDS.items():
        if any(slot in one.utilisation for _, one in reports):
            yield f"{word} allocated", _allocation_reader(slot)
    yield "while somebody waited", lambda one: "-" if one.busy is None else percent(one.busy)
    yield "wait, mean", lambda one: duration(one.waits.mean)
    yield "wait, median", lambda one: duration(one.waits.median)
    yield "wait, 95 % within", lambda one: duration(one.waits.p95)
    yield "wait, longest", lambda one: duration(one.waits.most)
    yield "slowdown, mean", lambda one: f"{one.waits.slowdown:.2f}"
    yield "longest queue", lambda one: str(one.longest_queue)
    if any("devices" in one.utilisation for _, one in reports):
        yield "free beside others", lambda one: percent(one.fragmentation)
        yield "largest free block", lambda one: f"{one.largest:.1f}"
    yield "on one NUMA node", lambda one: _ratio_text(one.one_numa, one.placed)
    yield "on as few as possible", lambda one: _ratio_text(one.kept_together, one.placed)
    yield "finished per hour", lambda one: f"{one.finished_per_hour:.2f}"
    if any("devices" in one.utilisation for _, one in reports):
        yield "device-hours", lambda one: f"{one.device_hours:.1f}"
    if any(one.preemptions for _, one in reports):
        yield "pushed out", lambda one: str(one.preemptions)
        yield "device-hours lost", lambda one: f"{one.lost_device_hours:.1f}"


def _waiting_text(one: Report) -> str:
    causes = ", ".join(f"{code} {count}" for code, count in one.causes.items())
    return f"{one.waiting} ({causes})" if causes else str(one.waiting)


def _allocation_reader(slot: str) -> Callable[[Report], str]:
    return lambda one: percent(one.utilisation.get(slot, 0.0))


def _ratio_text(part: int, whole: int) -> str:
    return percent(part / whole) if whole else "-"


def _wait_sections(
    title: str, what: str, reports: Reports, pick: Callable[[Report], Mapping[str, WaitStatistics]]
) -> Iterator[Section]:
    """Mean, median, 95th percentile and longest wait of each part, for each policy."""
    keys = list(pick(reports[0][1]))
    if len(keys) < 2:
        return
    columns = (what, "policy", "sessions", "started", "mean", "median", "95th", "longest", "slowdown")
    rows = [
        (clean(key) or "(none)", name, *_wait_cells(pick(one).get(key, WaitStatistics(0, 0))))
        for key in keys
        for name, one in reports
    ]
    yield Section(title, (Table(columns, tuple(rows)),), 2)


def _wait_cells(waits: WaitStatistics) -> tuple[str, ...]:
    counts = (str(waits.sessions), str(waits.started))
    if not waits.started:
        return (*counts, "-", "-", "-", "-", "-")
    times = (waits.mean, waits.median, waits.p95, waits.most)
    return (*counts, *map(duration, times), f"{waits.slowdown:.2f}")


def policy_json(name: str, one: Report) -> dict[str, object]:
    """One policy of `bai simulate --format json`. Times in seconds, shares from 0 to 1."""
    return {
        "policy": name,
        "seconds": one.span,
        "secondsUntilLastStart": one.settled,
        "sessions": one.sessions,
        "finished": one.finished,
        "running": one.running,
        "waiting": one.waiting,
        "gaveUp": one.gave_up,
        "causes": dict(one.causes),
        "utilisation": {slot: _rounded(share) for slot, share in one.utilisation.items()},
        "peak": {slot: _rounded(share) for slot, share in one.peak.items()},
        "utilisationWhileWaiting": None if one.busy is None else _rounded(one.busy),
        "waits": _waits_json(one.waits),
        "waitsByProject": {key: _waits_json(waits) for key, waits in one.by_project.items()},
        "waitsBySize": {key: _waits_json(waits) for key, waits in one.by_size.items()},
        "longestQueue": one.longest_queue,
        "fragmentation": {"mean": _rounded(one.fragmentation), "most": _rounded(one.fragmentation_most)},
        "largestFreeBlock": _rounded(one.largest),
        "locality": {
            "placed": one.placed,
            "onOneNumaNode": one.one_numa,
            "onAsFewAsPossible": one.kept_together,
        },
        "finishedPerHour": _rounded(one.finished_per_hour),
        "deviceHours": _rounded(one.device_hours),
        "preemptions": one.preemptions,
        "lostDeviceHours": _rounded(one.lost_device_hours),
    }


def _waits_json(waits: WaitStatistics) -> dict[str, object]:
    return {
        "sessions": waits.sessions,
        "started": waits.started,
        "mean": _rounded(waits.mean),
        "median": _rounded(waits.median),
        "p95": _rounded(waits.p95),
        "most": _rounded(waits.most),
        "slowdown": _rounded(waits.slowdown),
    }


def _rounded(value: float) -> float:
    return round(value, 6)
