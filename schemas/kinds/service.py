"""Service: replicas of one session behind one name."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, model_validator

from schemas.kinds.parts.autoscaling import MOST_REPLICAS, Autoscaling
from schemas.kinds.session import Command, SessionSpec
from schemas.problems.issues import Issue, issues_error
from schemas.values.envelope import Count, Flag, Model, Positive, ProjectMetadata, Resource
from schemas.values.names import Generation, Name, RequestPath
from schemas.values.quantities import Duration

Seconds = Annotated[Duration, Field(ge=1, le=3600)]
Spread = Literal["spread", "pack"]
MOST_HELD = 100


class HttpCheck(Model):
    """A request of the main container's port, which any status from 200 to 399 answers well."""

    port: Name
    """A port of the template, with protocol `http` or `https`."""
    path: RequestPath = "/"


class TcpCheck(Model):
    """A connection to the main container's port."""

    port: Name
    """A port of the template."""


_QUESTIONS = {"http": "object", "tcp": "object", "command": "array"}


class Probe(Model):
    """A question to each replica. One of `http`, `tcp` and `command` says which."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [
                {"required": [name], "properties": {name: {"type": kind}}}
                for name, kind in _QUESTIONS.items()
            ]
        }
    )

    http: HttpCheck | None = None
    tcp: TcpCheck | None = None
    command: Annotated[Command, Field(min_length=1)] | None = None
    """A program in the main container, which must end with 0."""
    period: Seconds = 5
    """How often it is asked."""
    timeout: Seconds = 2
    """So long an answer may take."""
    failures: Positive = 3
    """So many times in a row without a good answer count as a failure."""

    @model_validator(mode="before")
    @classmethod
    def _one_question(cls, value: Any) -> Any:
        if isinstance(value, dict):
            asked = [key for key in _QUESTIONS if value.get(key) is not None]
            if len(asked) != 1:
                message = f"a probe asks one of http, tcp and command, not {' and '.join(asked) or 'none'}"
                raise issues_error([Issue((), message)])
        return value


class LivenessProbe(Probe):
    """A replica that fails it is started again."""

    grace: Duration = 60
    """So long after a replica's start nothing counts, unless it has answered once."""


class UpdateRules(Model):
    """How replicas of one generation give way to those of the next."""

    surge: Count = 1
    """So many replicas more than `replicas` there may be meanwhile."""
    unavailable: Count = 0
    """So many of `replicas` may be missing meanwhile."""
    min_ready: Duration = 0
    """So long a replica must have been ready before it counts."""
    deadline: Duration = 600
    """So long a replica may run without getting ready before its generation is given up."""
    rollback: Flag = True
    """A generation that is given up makes way for the last one that was complete."""
    paused: Flag = False
    """Nothing of another generation is begun or taken away."""


class TrafficPart(Model):
    """Which part of all requests a generation gets."""

    generation: Generation
    """`latest`: what the document says; `stable`: the last one that was complete; or one by its name, as
    `bai get services` shows it."""
    weight: Annotated[int, Field(strict=True, ge=0, le=100)]


class Headroom(Model):
    """Places that are held for replicas to come."""

    replicas: Annotated[Count, Field(le=MOST_HELD)] = 0
    """So many more replicas than run have a place held for each in the resource group. Preemptible sessions
    may run there, and give way when a replica needs the place."""


class ServiceSpec(Model):
    replicas: Annotated[Count, Field(le=MOST_REPLICAS)] = 1
    template: SessionSpec
    """The `spec` of a Session: what each replica is. Its `type` is `inference` when it is left out, and its
    restart policy `always`."""
    readiness: Probe | None = None
    """Replicas get requests while they answer it. Left out: a connection to the template's first port, where
    it has one; else a replica is ready when it runs."""
    liveness: LivenessProbe | None = None
    update: UpdateRules = UpdateRules()
    autoscaling: Autoscaling | None = None
    """`replicas` is then what the service begins with."""
    headroom: Headroom = Headroom()
    traffic: tuple[TrafficPart, ...] = ()
    """Weights that add up to 100. Generations that are named here stay, each with replicas for its part; when
    left out, all replicas get requests alike, and the latest generation takes the others' place."""
    placement: Spread = "spread"
    """Whether replicas are on as many nodes as there is room on, or on as few."""
    drain: Annotated[Duration, Field(le=3600)] = 30
    """So long a replica that gets no further requests may take for those it has, before it is stopped."""
    history: Annotated[Positive, Field(le=100)] = 10
    """So many generations are remembered, for `bai rollout undo`."""


class Service(Resource):
    """Replicas of one session, kept up, updated one after the other, and reached by one name."""

    singular = "service"
    kind: Literal["Service"]
    metadata: ProjectMetadata
    spec: ServiceSpec
