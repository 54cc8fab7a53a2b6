"""Cluster: an execution domain, which provider drives it and how it is reached."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from schemas.kinds.parts.docker import ClusterDocker
from schemas.kinds.parts.kubernetes import Kubernetes
from schemas.kinds.parts.provisioning import Provisioning
from schemas.values.envelope import Flag, Integer, Model, Port, Resource
from schemas.values.names import (
    AbsolutePath,
    Cidr,
    DeviceName,
    EnvName,
    JumpHosts,
    LinuxUser,
    Name,
    SecretReference,
    StoreUrl,
    Text,
)
from schemas.values.quantities import Duration

PROVIDERS = ("process", "docker", "kubernetes", "openstack", "backendai", "fake")
"""Providers whose options have a field of their own name; a stranger's provider uses `options`."""


class Ssh(Model):
    """How machines are reached; a node's own values win over its cluster's, and both over `~/.ssh/config`."""

    user: LinuxUser | None = None
    port: Port | None = None
    key_from: SecretReference | None = None
    """The private key, without a passphrase: `STORE/ENTRY`. Left out: the agent's keys and the usual ones."""
    jump: JumpHosts | None = None
    """Host to go through, `[user@]host[:port]`; several, separated by commas, one after another; `none` for a
    node that needs none of its cluster's."""
    connect_timeout: Duration | None = None
    host_keys: Literal["strict", "accept-new"] | None = None
    """`strict` (as when left out): only known hosts; `accept-new`: unknown ones are recorded, changed ones
    refused."""
    known_hosts_from: SecretReference | None = None
    """Lines of known_hosts, which count before `~/.ssh/known_hosts`: `STORE/ENTRY`."""
    keep_alive: Duration | None = None
    """Silence after which a node is asked for a sign of life, 15 s when left out; one that does not answer
    three times over is given up."""
    sudo: Flag | None = None
    """Commands and files through `sudo -n`, for users that are not root."""


class Network(Model):
    """One network plane."""

    cidr: Cidr | None = None
    interfaces: tuple[DeviceName, ...] = ()

    """Interface or RDMA device names on every node."""
    rdma: Flag = False


class Networks(Model):
    """The planes of a cluster."""

    data: Network | None = None
    """User and control traffic."""
    storage: Network | None = None
    fabric: Network | None = None
    """GPU to GPU between nodes."""


class SessionUids(Model):
    """Linux users of the machines that sessions run as, one for each project."""

    first: Annotated[Integer, Field(ge=1000, le=2**32 - 3)] = 1_900_000_000
    """The lowest number. Nothing else on the machines, or on their shared storage, may use this range."""
    count: Annotated[Integer, Field(ge=1, le=2**32 - 3)] = 100_000_000
    """How many there are; a project's is drawn from its name."""

    def uid_for(self, project: str) -> int:
        """The same number for as long as the range and the project's name are."""
        number = int.from_bytes(hashlib.sha256(project.encode()).digest()[:8], "big")
        return self.first + number % self.count

    @property
    def last(self) -> int:
        """The highest number."""
        return self.first + self.count - 1


class Defaults(Model):
    """What sessions get when they say nothing."""

    resource_group: Name | None = None
    image: Text | None = None
    env: Mapping[EnvName, Text] = {}


class Accounting(Model):
    """What is measured for `bai report efficiency`."""

    sample_interval: Annotated[Duration, Field(ge=10, le=600)] | None = None
    """How often the use of every running session is measured, from 10s to 10m. When left out, only sessions
    with a rule about idle time are measured."""


class ClusterSpec(Model):
    provider: Name
    """`process` (Linux processes on this machine), `docker`, ..., or the name of a plugin."""
    process: Mapping[Text, Any] = {}
    """Options of the process provider."""
    docker: ClusterDocker = ClusterDocker()
    """How the nodes' engines are reached and used; a node's own values win."""
    kubernetes: Kubernetes = Kubernetes()
    """How the API server is reached, and what pods have in common."""
    openstack: Mapping[Text, Any] = {}
    """E.g. `cloud`: the name in clouds.yaml."""
    backendai: Mapping[Text, Any] = {}
    """E.g. `endpoint`."""
    fake: Mapping[Text, Any] = {}
    options: Mapping[Text, Any] = {}
    """Options of a provider that is a plugin."""
    state_root: AbsolutePath | None = None
    """Where the provider keeps its own state on a machine; its default when left out."""
    state: StoreUrl | None = None
    """Where bai itself remembers, for people to read: `postgresql://...`, without a password and without
    files. It is not used, but where it stands, whoever runs bai must name a store with `--state` or
    `BAI_STATE`, so that nobody begins another one by mistake. The loop that follows a remote does not look at
    it."""
    ssh: Ssh = Ssh()
    networks: Networks = Networks()
    profile: Name | None = None
    """The NodeProfile of its nodes that name none."""
    provisioning: Provisioning = Provisioning()
    """How nodes are brought to their profiles."""
    session_uids: SessionUids = SessionUids()
    """Users that sessions run as, native ones where bai is root; a Project's own `uid` wins."""
    accounting: Accounting = Accounting()
    defaults: Defaults = Defaults()

    @property
    def provider_options(self) -> Mapping[str, Any]:
        """The options of the chosen provider."""
        own = getattr(self, self.provider) if self.provider in PROVIDERS else {}
        return {**self.options, **(own.options_set if isinstance(own, (ClusterDocker, Kubernetes)) else own)}


class Cluster(Resource):
    """An execution domain."""

    singular = "cluster"
    kind: Literal["Cluster"]
    spec: ClusterSpec
