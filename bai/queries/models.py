"""Questions of reading commands, as a server is asked them: each is the query of a route."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from schemas.problems.errors.command import CommandError

Name = Annotated[str, Field(max_length=300)]
Text = Annotated[str, Field(max_length=1000)]
Count = Annotated[int, Field(ge=0, le=10_000)]
Moment = Annotated[float, Field(ge=-1e11, le=1e12, allow_inf_nan=False)]
Form = Literal["text", "wide", "json"]
SortOrder = Literal["", "name", "age", "phase", "project", "gpus"]


class Query(BaseModel):
    """`form`: what is printed, as the commands' `--format` has it."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    command: ClassVar[str]
    form: Form = "text"

    @classmethod
    def of(cls, **fields: Any) -> Self:
        """Made of what a person wrote. Raises CommandError."""
        try:
            return cls(**fields)
        except ValidationError as error:
            first = error.errors()[0]
            name = ".".join(map(str, first["loc"]))
            raise CommandError(why=f"{name}: {first['msg'][0].lower()}{first['msg'][1:]}") from None


class GetQuery(Query):
    """Resources. `kind` is empty for all; `owners`: names of whoever asks, which count where only theirs are
    asked for (`mine`)."""

    command: ClassVar[str] = "get"
    kind: Name = ""
    name: Name = ""
    project: Name = ""
    phase: Text = ""
    selector: Text = ""
    sort: SortOrder = ""
    mine: bool = False
    owners: Annotated[tuple[Name, ...], Field(max_length=10)] = ()


class StatusQuery(Query):
    command: ClassVar[str] = "status"


class DescribeQuery(Query):
    command: ClassVar[str] = "describe"
    resource: Name


class ExplainQuery(Query):
    """`nodes`: how many to show for a session that waits."""

    command: ClassVar[str] = "explain"
    session: Name
    nodes: Count = 8


class CapacityQuery(Query):
    command: ClassVar[str] = "capacity"
    group: Name = ""


class NodesQuery(Query):
    command: ClassVar[str] = "nodes"
    name: Name = ""


class HistoryQuery(Query):
    command: ClassVar[str] = "history"
    tail: Annotated[int, Field(ge=1, le=10_000)] = 30


class EventsQuery(Query):
    command: ClassVar[str] = "events"
    resource: Name = ""
    tail: Count = 100


class AuditQuery(Query):
    """`since` and `until` in seconds since the epoch; `changes`: with each field that changed."""

    command: ClassVar[str] = "audit"
    resource: Name = ""
    actor: Name = ""
    commit: Name = ""
    plan: Name = ""
    since: float | None = None
    until: float | None = None
    tail: Count = 100
    changes: bool = False


class ReviewQuery(Query):
    """What a commit, branch or tag would change; `columns`: how wide it is drawn."""

    command: ClassVar[str] = "review"
    commit: Annotated[str, Field(min_length=4, max_length=100)]
    columns: Annotated[int, Field(ge=40, le=400)] = 100


class UsageQuery(Query):
    """Hours that sessions held between two moments, in seconds since the epoch; without them, all so far."""

    command: ClassVar[str] = "usage"
    by: Literal["project", "user", "session", "project-user"] = "project"
    since: Moment = 0.0
    until: Moment | None = None


class EfficiencyQuery(Query):
    """What a session's last start was given against what it used."""

    command: ClassVar[str] = "efficiency"
    session: Name


class AppsQuery(Query):
    """Under which URLs a session's apps are opened."""

    command: ClassVar[str] = "apps"
    session: Name
