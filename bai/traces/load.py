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
from schemas.files.regular_files import read_regular_file
from schemas.problems.errors.repository import CannotRead, InvalidRepository
from schemas.problems.problem import Problem, SourceLocation
from schemas.repository.repository import Repository


def read_trace(path: Path, repository: Repository, group: str) -> list[Job]:
    """The sessions of a trace: an openb pod list or a queue file, told apart by its columns or its ending.

    `group` is where sessions go that name none. Raises InvalidRepository, CannotRead, and OSError.
    """
    if path.suffix in (".yaml", ".yml", ".json"):
        found = queue_file.parse_yaml(str(path), read_regular_file(path, table.LARGEST_TRACE))
        return _require_jobs(path, queue_file.to_jobs(found, repository, group))
    rows = table.parse_csv(str(path), table.read_text(path))
    if not openb.is_pod_list(rows.columns):
        return _require_jobs(path, queue_file.to_jobs(queue_file.parse_table(rows), repository, group))
    rows.require_columns(openb.POD_COLUMNS, "a pod list without times says what is asked for, but not when")
    found_jobs = openb.parse_pods(rows.rows, group)
    _check_distinct(rows, "name")
    rows.check()
    return _require_jobs(path, found_jobs)


def read_nodes(path: Path, group: str) -> tuple[NodeInfo, ...]:
    """The nodes of an openb node list. Raises InvalidRepository, CannotRead, and OSError."""
    rows = table.parse_csv(str(path), table.read_text(path))
    rows.require_columns(openb.NODE_COLUMNS)
    nodes = openb.parse_nodes(rows.rows, group)
    _check_distinct(rows, "sn")
    rows.check()
    return tuple(nodes)


def _check_distinct(rows: table.Table, column: str) -> None:
    first: dict[str, int] = {}
    for row in rows.rows:
        line = first.setdefault(row.text(column), row.line)
        if line != row.line:
            row.add_problem(column, f"{row.text(column)} stands twice, first on line {line}")


def _require_jobs(path: Path, jobs: list[Job]) -> list[Job]:
    if not jobs:
        raise CannotRead(what=str(path), why="there are no sessions in it")
    return jobs


def assign_group(jobs: Sequence[Job], group: str) -> list[Job]:
    """All sessions in one group, whatever they name."""
    return [replace(job, request=replace(job.request, group=group)) for job in jobs]


def compress_arrivals(jobs: Sequence[Job], factor: float) -> list[Job]:
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
            SourceLocation(file),
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
