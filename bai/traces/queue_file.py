"""bai's own trace: sessions with their arrival and duration, as YAML or CSV.

An entry has the fields of a session's `spec` and, beside them, `name`, `project`, `arrival` and `duration`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from pydantic import BeforeValidator, ValidationError

from bai.traces.table import Table
from planner.simulation.values import Job
from reconciler.plan.planner_values import session_request
from schemas.files.yaml_reader import YamlReader
from schemas.files.yaml_scalars import parse_scalar
from schemas.kinds.parts.resources import is_slot
from schemas.kinds.session import Session, SessionSpec
from schemas.problems.errors.repository import InvalidRepository
from schemas.problems.issues import Issue, value_error
from schemas.problems.model_errors import nested_issues
from schemas.problems.positions import Positions, path_text
from schemas.problems.problem import Problem, SourceLocation
from schemas.problems.text import format_value
from schemas.repository.repository import Repository
from schemas.values.envelope import Model, ProjectMetadata
from schemas.values.names import Name
from schemas.values.quantities import parse_duration, parse_timestamp

PLAIN_COLUMNS = (
    "name",
    "project",
    "arrival",
    "duration",
    "type",
    "resourceGroup",
    "owner",
    "priority",
    "timeout",
    "numa",
    "preemptible",
)
SPECIAL_COLUMNS = ("cpu", "memory", "nodes", "gpuModel")
_TEXT_COLUMNS = frozenset({"name", "project", "owner", "resourceGroup", "type", "numa", "gpuModel"})


def _seconds(value: object) -> float:
    """Seconds as a number, or a duration."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        if not 0 <= value < 1e12:
            raise value_error(f"{format_value(value)} is not a number of seconds from 0 up")
        return float(value)
    try:
        return float(parse_duration(value))
    except ValueError:
        raise value_error(
            f"{format_value(value)} is neither a number of seconds nor a duration such as 1h30m"
        ) from None


def _arrival(value: object) -> float | datetime:
    """Seconds from the trace's beginning, or a moment with its time zone."""
    try:
        return parse_timestamp(value)
    except ValueError:
        pass
    try:
        return _seconds(value)
    except ValueError:
        text = f"{format_value(value)} is neither a number of seconds, a duration such as 1h30m, nor a moment"
        raise value_error(text, "moments have their time zone: 2026-12-01T00:00:00Z") from None


class Entry(SessionSpec):
    """One session of a queue file."""

    name: Name
    project: Name = "default"
    arrival: Annotated[float | datetime, BeforeValidator(_arrival)]
    """When it is submitted: since the beginning of the trace, or a moment."""
    duration: Annotated[float, BeforeValidator(_seconds)]
    """How long it runs once it has started."""

    @property
    def arrival_seconds(self) -> float:
        return self.arrival.timestamp() if isinstance(self.arrival, datetime) else self.arrival


class QueueFile(Model):
    """The whole file."""

    sessions: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class LocatedEntry:
    """An entry and where it stands."""

    entry: Entry
    place: SourceLocation


def parse_yaml(name: str, data: bytes) -> list[LocatedEntry]:
    """The entries of a YAML file. Raises InvalidRepository with all problems, each with its place."""
    reader = YamlReader(data, name).read()
    problems = list(reader.problems)
    if not problems and len(reader.documents) != 1:
        problems.append(
            Problem(SourceLocation(name), "BAI-V014", "", "a queue file is one document: `sessions: [...]`")
        )
    if problems:
        raise InvalidRepository(tuple(problems), where=name)
    try:
        file = QueueFile.model_validate(reader.documents[0].value)
    except ValidationError as error:
        positions = Positions(name, data)
        places = ((issue, positions.find(0, issue.at, key=issue.key)) for issue in nested_issues(error))
        raise InvalidRepository(tuple(_problem_of_issue(*one) for one in places), where=name) from None
    positions = Positions(name, data)
    return [
        LocatedEntry(entry, positions.find(0, ("sessions", at))) for at, entry in enumerate(file.sessions)
    ]


def parse_table(table: Table) -> list[LocatedEntry]:
    """The entries of a CSV file. Raises InvalidRepository with all problems, each with its line."""
    table.require_columns(
        ("name", "arrival", "duration"), "a queue file has these, an openb trace has num_gpu and gpu_milli"
    )
    problems = [
        Problem(
            SourceLocation(table.file),
            "BAI-V020",
            column,
            "this column is not known",
            f"known are {', '.join((*PLAIN_COLUMNS, *SPECIAL_COLUMNS))} and slots such as cuda.device",
        )
        for column in table.columns
        if column not in (*PLAIN_COLUMNS, *SPECIAL_COLUMNS) and not is_slot(column)
    ]
    problems += table.problems
    found: list[LocatedEntry] = []
    for row in table.rows:
        place = SourceLocation(table.file, row.line)
        try:
            found.append(LocatedEntry(Entry.model_validate(_entry_document(row.values)), place))
        except ValidationError as error:
            problems += [_problem_of_issue(issue, place) for issue in nested_issues(error)]
    if problems:
        raise InvalidRepository(tuple(problems), where=table.file)
    return found


def _entry_document(values: Mapping[str, str]) -> dict[str, Any]:
    """A line as the entry that YAML would hold; empty cells are left out."""
    document: dict[str, Any] = {}
    resources: dict[str, Any] = {}
    for column, text in values.items():
        if not text.strip():
            continue
        value = text.strip() if column in _TEXT_COLUMNS else _cell_value(text.strip())
        if column in ("cpu", "memory") or is_slot(column):
            resources[column] = value
        elif column == "gpuModel":
            document["placement"] = {"gpuModel": [one for one in str(value).split("|") if one]}
        elif column == "nodes":
            document["cluster"] = _cluster_roles(value)
        else:
            document[column] = value
    return {**document, "resources": resources}


def _cell_value(text: str) -> object:
    try:
        return parse_scalar(text)
    except ValueError:
        return text


def _cluster_roles(nodes: object) -> dict[str, Any]:
    if not isinstance(nodes, int):
        return {"mode": "multi-node", "roles": {"main": nodes}}
    return {"mode": "multi-node", "roles": {"main": 1, "sub": nodes - 1}} if nodes > 1 else {}


def _problem_of_issue(issue: Issue, place: SourceLocation) -> Problem:
    return Problem(place, issue.code, path_text(issue.at), issue.message, issue.hint)


def to_jobs(found: Sequence[LocatedEntry], repository: Repository, group: str) -> list[Job]:
    """The sessions as the planner is asked for them; `group` for those that name none.

    Raises InvalidRepository for names that stand twice, and for dependencies that are not in the trace.
    """
    file = found[0].place.file if found else "the trace"
    names: dict[str, LocatedEntry] = {}
    problems: list[Problem] = []
    for one in found:
        other = names.setdefault(_entry_session(one.entry, "").identity, one)
        if other is not one:
            what = f"{one.entry.name} stands twice in project {one.entry.project}"
            text = f"{what}, first on line {other.place.line}"
            problems.append(Problem(one.place, "BAI-V042", "name", text))
    problems += _mixed_arrivals(found)
    for one in found:
        for wanted in one.entry.depends_on:
            if wanted not in names:
                problems.append(Problem(one.place, "BAI-V040", "dependsOn", f"{wanted} is not in the trace"))
    if problems:
        raise InvalidRepository(tuple(problems), where=file)
    return [_entry_job(one.entry, repository, group) for one in found]


def _mixed_arrivals(found: Iterable[LocatedEntry]) -> Iterator[Problem]:
    moments = [one for one in found if isinstance(one.entry.arrival, datetime)]
    others = [one for one in found if not isinstance(one.entry.arrival, datetime)]
    if moments and others:
        text = "some sessions arrive at moments and others at seconds since the beginning"
        yield Problem(others[0].place, "BAI-V034", "arrival", text, "use one of the two")


def _entry_job(entry: Entry, repository: Repository, group: str) -> Job:
    request = session_request(_entry_session(entry, group), repository, enqueued=entry.arrival_seconds)
    return Job(request, entry.duration, entry.checkpoint is not None)


def _entry_session(entry: Entry, group: str) -> Session:
    spec = entry if entry.resource_group else entry.model_copy(update={"resource_group": group})
    return Session.model_construct(
        api_version="bai/v1",
        kind="Session",
        metadata=ProjectMetadata(name=entry.name, project=entry.project),
        spec=spec,
    )
