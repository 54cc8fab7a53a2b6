"""Session: one or more containers that compute together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from schemas.envelope import Count, Flag, Integer, Model, Port, Positive, ProjectMetadata, Resource
from schemas.names import (
    AbsolutePath,
    EnvName,
    LabelKey,
    LabelValue,
    Name,
    NodeName,
    Role,
    SecretSource,
    Text,
    UserRef,
)
from schemas.quantities import Duration, Percent, Timestamp
from schemas.resource_group import NumaPolicy, SessionType
from schemas.resources import Resources

Signal = Literal[
    "SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2", "SIGCONT", "SIGWINCH", "SIGKILL"
]
Command = tuple[Text, ...]


class RoleOverride(Model):
    """What the containers of one role have of their own."""

    resources: Resources | None = None
    """Replaces the session's resources as a whole."""
    command: Command | None = None
    image: Text | None = None
    env: Mapping[EnvName, Text] = {}
    """Added to the session's."""


class Layout(Model):
    """How many containers of which role, and whether they may be spread over nodes."""

    mode: Literal["single-node", "multi-node"] = "single-node"
    roles: Mapping[Role, Annotated[Positive, Field(le=10_000)]] = {"main": 1}
    """Containers by role; hostnames are `main1`, `sub1`, `sub2`, ... `main` exists exactly once."""
    per_role: Mapping[Role, RoleOverride] = {}


class PlacementRules(Model):
    """Where it may run."""

    nodes: tuple[NodeName, ...] = ()
    """Only these nodes; any when empty."""
    gpu_model: tuple[Text, ...] = ()
    """Only these GPU models."""
    node_selector: Mapping[LabelKey, LabelValue] = {}
    """Only nodes with all these labels."""
    require_nvlink: Flag = False
    """GPUs of one container must be joined by NVLink (or xGMI): links lead from each to each other, over
    none but its own."""
    same_leaf: Flag = False
    """Its nodes must hang on one leaf switch: all carry the same label `bai/leaf`."""


class Secret(Model):
    """An environment variable whose value never enters git, the plan, the store or a log."""

    env: EnvName
    source: Annotated[SecretSource, Field(alias="from")]
    """`env:NAME` (of the process that applies) or `file:/absolute/path`; read only while applying."""


class Mount(Model):
    """A volume inside the containers."""

    volume: Name
    """A Volume of the session's project, or one without a project."""
    path: AbsolutePath
    read_only: Flag = False


class SessionPort(Model):
    """A port that a container serves."""

    name: Name
    port: Port
    protocol: Literal["http", "https", "tcp", "udp", "ssh", "vnc"] = "http"


class Idle(Model):
    """When an unused session is stopped."""

    after: Duration
    metric: Literal["gpu-utilization", "cpu-utilization", "network"] = "gpu-utilization"
    below: Percent = 5


class Restart(Model):
    """What happens when a container ends."""

    policy: Literal["never", "on-failure", "always"] = "never"
    max: Count = 0
    """Most restarts; 0 means unlimited (none for `never`)."""


class Checkpoint(Model):
    """How a session is told to save its work before it is pushed out."""

    signal: Signal = "SIGUSR1"
    grace: Duration = 120


class Stop(Model):
    """How a container is stopped: a signal, then after the grace the whole tree is killed."""

    signal: Signal = "SIGTERM"
    grace: Duration = 10


class SessionSpec(Model):
    type: SessionType = "interactive"
    """`batch` ends by itself with success or failure; the others run until they are stopped."""
    resource_group: Name | None = None
    """May be left out when there is exactly one, or the cluster names a default."""
    owner: UserRef | None = None
    """A User's name or e-mail address."""
    image: Text | None = None
    """What the containers run; providers of native processes need none."""
    resources: Resources = Resources()
    """What every container gets."""
    cluster: Layout = Layout()
    """How many containers there are, and of which roles."""
    numa: NumaPolicy | None = None
    """Overrides the group's policy."""
    placement: PlacementRules = PlacementRules()
    command: Command = ()
    """Program and arguments, one string each; never read by a shell."""
    workdir: AbsolutePath | None = None
    """Where the command starts; the container's own scratch folder when left out."""
    env: Mapping[EnvName, Text] = {}
    secrets: tuple[Secret, ...] = ()
    mounts: tuple[Mount, ...] = ()
    ports: tuple[SessionPort, ...] = ()
    depends_on: tuple[Text, ...] = ()
    """Sessions (`Session/<project>/<name>`) that must have succeeded (batch) or run first."""
    priority: Annotated[Integer, Field(ge=0, le=1000)] = 10
    """Higher goes first within its queue."""
    starts_at: Timestamp | None = None
    """Not before."""
    timeout: Duration | None = None
    """Longest time it may run."""
    idle: Idle | None = None
    restart: Restart = Restart()
    stop: Stop = Stop()
    preemptible: Flag = False
    checkpoint: Checkpoint | None = None
    movable: Flag = False
    """`--defragment` may stop it and start it again on another node; a batch session must also have
    `restart` or `checkpoint`."""

    @property
    def size(self) -> int:
        """How many containers it has."""
        return sum(self.cluster.roles.values())

    def containers(self) -> tuple[Container, ...]:
        """Every container with its role's values filled in: `main1` first, then role by role as written."""
        roles = sorted(self.cluster.roles, key=lambda role: role != "main")
        return tuple(
            self._container(role, index) for role in roles for index in range(1, self.cluster.roles[role] + 1)
        )

    def _container(self, role: str, index: int) -> Container:
        own = self.cluster.per_role.get(role, RoleOverride())
        return Container(
            name=f"{role}{index}",
            role=role,
            index=index,
            resources=own.resources or self.resources,
            command=self.command if own.command is None else own.command,
            image=own.image or self.image or "",
            env={**self.env, **own.env},
        )


@dataclass(frozen=True, slots=True)
class Container:
    """One container (kernel) of a session: hostname, role and 1-based number, and what it runs."""

    name: str
    role: str
    index: int
    resources: Resources
    command: tuple[str, ...]
    image: str
    env: Mapping[str, str]


class Session(Resource):
    """A compute session."""

    singular = "session"
    kind: Literal["Session"]
    metadata: ProjectMetadata
    spec: SessionSpec
