"""Which format a file has, and what is in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bai.traces import openb, queue_file, table
from planner.model.slots import plural
from planner.model.types import NodeInfo
from planner.simulation.values import Job
from schemas.files.plain_files import read_plain
from schemas.problems.errors import CannotRead, InvalidRepository, Place, Problem
from schemas.repository.repository import Repository


def read_trace(path: Path, repository: Repository, group: str) -> list[Job]:
    """The sessions of a trace: an openb pod list or a queue file, told apart by its columns or its ending.

    `group` is where sessions go that name none. Raises InvalidRepository, CannotRead, and OSError.
    """
    if path.suffix in (".yaml", ".yml", ".json"):
        found = queue_file.from_yaml(str(path), read_plain(path, table.MOST))
        return _some(path, queue_file.jobs(found, repository, group))
    rows = table.parse(str(path), table.read_text(path))
    if not openb.is_pods(rows.columns):
        return _some(path, queue_file.jobs(queue_file.from_table(rows), repository, group))
    rows.need(openb.POD_COLUMNS, "a pod list without times says what is asked for, but not when")
    found_jobs = openb.pods(rows.rows, group)
    _distinct(rows, "name")
    rows.check()
    return _some(path, found_jobs)


def read_nodes(path: Path, group: str) -> tuple[NodeInfo, ...]:
    """The nodes of an openb node list. Raises InvalidRepository, CannotRead, and OSError."""
    rows = table.parse(str(path), table.read_text(path))
    rows.need(openb.NODE_COLUMNS)
    nodes = openb.nodes(rows.rows, group)
    _distinct(rows, "sn")
    rows.check()
    return tuple(nodes)


def _distinct(rows: table.Table, column: str) -> None:
    first: dict[str, int] = {}
    for row in rows.rows:
        line = first.setdefault(row.text(column), row.line)
        if line != row.line:
            row.wrong(column, f"{row.text(column)} stands twice, first on line {line}")


def _some(path: Path, jobs: list[Job]) -> list[Job]:
    if not jobs:
        raise CannotRead(what=str(path), why="there are no sessions in it")
    return jobs


def in_group(jobs: Sequence[Job], group: str) -> list[Job]:
    """All sessions in one group, whatever they name."""
    return [replace(job, request=replace(job.request, group=group)) for job in jobs]


def denser(jobs: Sequence[Job], factor: float) -> list[Job]:
    """The same sessions, arriving in the `factor`-th part of the time."""
    begin = min((job.arrival for job in jobs), default=0.0)
    return [
        replace(job, request=replace(job.request, enqueued=begin + (job.arrival - begin) / factor))
        for job in jobs
    ]


def check_groups(jobs: Sequence[Job], groups: Sequence[str], file: str) -> None:
    """Raises InvalidRepository when sessions name groups that are not there."""
    strangers = Counter(job.request.group for job in jobs if job.request.group not in groups)
    hint = f"known are {', '.join(groups)}; --group puts all sessions into one"
    problems = tuple(
        Problem(
            Place(file),
            "BAI-V040",
            "resourceGroup",
            f"there is no resource group {name}, which {plural(count, 'session')} want"
            if name
            else f"{plural(count, 'session')} name no resource group, and there are several",
            hint,
        )
        for name, count in sorted(strangers.items())
    )
    if problems:
        raise InvalidRepository(problems, where=file)
