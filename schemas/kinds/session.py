"""Session: one or more containers that compute together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from schemas.kinds.parts.apps import AppRules
from schemas.kinds.parts.docker import Capability
from schemas.kinds.parts.resources import Resources, SharedResources
from schemas.kinds.resource_group import NodeLoss, NumaPolicy, SessionType
from schemas.kinds.session_template import FromTemplate
from schemas.problems.issues import value_error
from schemas.problems.text import format_value
from schemas.values.envelope import Count, Flag, Integer, Model, Port, Positive, ProjectMetadata, Resource
from schemas.values.names import (
    AbsolutePath,
    ContainerUser,
    EnvName,
    LabelKey,
    LabelValue,
    Name,
    NodeName,
    RelativePath,
    Role,
    SecretReference,
    Text,
    UserRef,
)
from schemas.values.quantities import Duration, Percent, Timestamp

Signal = Literal[
    "SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2", "SIGCONT", "SIGWINCH", "SIGKILL"
]
Command = tuple[Text, ...]
UlimitName = Literal[
    "core", "cpu", "data", "fsize", "locks", "memlock", "msgqueue", "nice", "nofile", "nproc", "rss",
    "rtprio", "rttime", "sigpending", "stack",
]  # fmt: skip


def _parse_ulimit(value: Any) -> Any:
    if value == "unlimited" or (type(value) is int and 0 <= value <= MOST_ULIMIT):
        return value
    raise value_error(f"{format_value(value)} is neither a whole number from 0 on nor unlimited")


MOST_ULIMIT = 2**53
Ulimit = Annotated[
    Annotated[Integer, Field(ge=0, le=MOST_ULIMIT)] | Literal["unlimited"], BeforeValidator(_parse_ulimit)
]
IdleMetric = Literal["gpu-utilization", "cpu-utilization", "network"]


class RoleOverride(Model):
    """What the containers of one role have of their own."""

    resources: SharedResources | None = None
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
    ends_with: Literal["main", "any-failure"] | None = None
    """When the session has ended, and what is left of it is stopped. `main`: when its main container has;
    `any-failure`: also when another one fails for good. Left out: `any-failure` for batch sessions, else
    `main`."""


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
    source: Annotated[SecretReference, Field(alias="from")]
    """`STORE/ENTRY`, of a SecretStore for its project; read only while applying."""


class Mount(Model):
    """A volume inside the containers."""

    volume: Name
    """A Volume of the session's project, or one without a project."""
    path: AbsolutePath
    """Where the containers see it."""
    sub_path: RelativePath | None = None
    """Only this folder of the volume; made when it is missing. All of it when left out."""
    read_only: Flag = False


class SessionPort(Model):
    """A port that a container serves. Its program finds the number in `BAI_PORT_<NAME>`: on its node's own
    network it may be another one than here."""

    name: Name
    port: Port
    protocol: Literal["http", "https", "grpc", "tcp", "udp", "ssh", "vnc"] = "http"
    """`grpc`: HTTP/2 without TLS, as gRPC servers listen."""
    publish: Flag = False
    """The main container's is reached at its node's address too: at this port where it is free there, else
    at one that the plan names. `bai port-forward` needs no publishing."""


class Idle(Model):
    """When an unused session is stopped: all its containers did next to nothing for so long."""

    after: Duration
    metric: IdleMetric = "gpu-utilization"
    """`gpu-utilization`: of its busiest GPU; `cpu-utilization`: of the cores that it holds; `network`: bytes
    in and out."""
    below: Percent = 5
    """What counts as unused; `network` is unused below 1 KiB a second instead."""
    grace: Duration = 300
    """So long after its start nothing counts."""


class Restart(Model):
    """What happens when a container ends."""

    policy: Literal["never", "on-failure", "always"] = "never"
    max: Count = 0
    """Most restarts; 0 means unlimited (none for `never`)."""


class ContainerRules(Model):
    """How containers differ from the careful default: the project's user, without capabilities and without a
    way to any, and a writable root file system. Native processes heed none of it: they run as their project's
    user."""

    user: ContainerUser | None = None
    """`uid`, `uid:gid`, a name of the image, or `root` where the resource group has `allowRoot`. When left
    out: the image's own where that is not root, else the project's."""
    read_only_root: Flag = False
    """Only volumes and /tmp (in memory) can be written."""
    capabilities: tuple[Capability, ...] = ()
    """Linux capabilities that root has on top of its few, such as SYS_PTRACE; other users have none."""
    ulimits: Mapping[UlimitName, Ulimit] = {}
    """Resource limits of its processes, such as `memlock: unlimited`."""


class Threads(Model):
    """Threads of OpenMP in its containers: as many as the container has cores."""

    bind: Literal["none", "close"] = "none"
    """`close`: each thread stays on a core of its own, where the container has its cores alone. The first
    thread is the program's own, and processes that it starts stay on that one core with it: only for programs
    that start none."""


class Checkpoint(Model):
    """How a session is told to save its work before it is pushed out or moved: by a signal, and after the
    grace it is stopped as usual."""

    signal: Signal = "SIGUSR1"
    grace: Duration = 120


class Stop(Model):
    """How a container is stopped: a signal, then after the grace the whole tree is killed."""

    signal: Signal = "SIGTERM"
    grace: Duration = 10


class SessionSpec(Model):
    template: Annotated[FromTemplate | None, Field(alias="from")] = None
    """A template that says what is not said here. What stands here counts; mappings are joined."""
    type: SessionType = "interactive"
    """`batch` ends by itself with success or failure; the others run until they are stopped."""
    resource_group: Name | None = None
    """May be left out when there is exactly one, or the cluster names a default."""
    owner: UserRef | None = None
    """A User's name or e-mail address."""
    image: Text | None = None
    """What the containers run: an Image's name, or a reference such as `registry.example/team/tool:2`.
    Providers of native processes need none."""
    resources: SharedResources = Resources()
    """What every container gets."""
    cluster: Layout = Layout()
    """How many containers there are, and of which roles."""
    numa: NumaPolicy | None = None
    """Overrides the group's policy."""
    threads: Threads = Threads()
    placement: PlacementRules = PlacementRules()
    command: Command = ()
    """Program and arguments, one string each; never read by a shell."""
    tty: Flag = False
    """Gives the command a terminal, which `bai attach` connects to: for shells and the like."""
    workdir: AbsolutePath | None = None
    """Where the command starts; when left out, the working directory that its image names (other than `/`),
    else the home `/home/work`."""
    env: Mapping[EnvName, Text] = {}
    secrets: tuple[Secret, ...] = ()
    mounts: tuple[Mount, ...] = ()
    ports: tuple[SessionPort, ...] = ()
    apps: Mapping[Name, AppRules] = {}
    """By the names of ports with protocol `http`, `https` or `grpc`: they have a URL where the cluster has an
    AppProxy. Those that are not here are their operators'."""
    depends_on: tuple[Text, ...] = ()
    """Sessions (`Session/<project>/<name>`) that must have succeeded (batch) or run first."""
    priority: Annotated[Integer, Field(ge=0, le=1000)] = 10
    """Higher goes first within its queue."""
    starts_at: Timestamp | None = None
    """Not before."""
    hold: Flag = False
    """Not placed while this is true: `bai hold` and `bai release` write it. What runs already goes on."""
    timeout: Duration | None = None
    """Longest time it may run."""
    idle: Idle | None = None
    restart: Restart = Restart()
    stop: Stop = Stop()
    container: ContainerRules = ContainerRules()
    preemptible: Flag = False
    checkpoint: Checkpoint | None = None
    movable: Flag = False
    """`--defragment`, and a node that is drained, may stop it and start it again on another node; a batch
    session must also have `restart` or `checkpoint`."""
    node_loss: NodeLoss | None = None
    """When its node cannot be reached; as its resource group says when left out."""

    @property
    def size(self) -> int:
        """How many containers it has."""
        return sum(self.cluster.roles.values())

    @cached_property
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
