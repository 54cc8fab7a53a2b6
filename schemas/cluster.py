"""Cluster: an execution domain, which provider drives it and how it is reached."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from schemas.envelope import Flag, Model, Port, Resource
from schemas.names import AbsolutePath, Address, Cidr, DeviceName, EnvName, LinuxUser, Name, Text
from schemas.quantities import Duration

PROVIDERS = ("process", "docker", "kubernetes", "openstack", "backendai", "fake")
"""Providers whose options have a field of their own name; a stranger's provider uses `options`."""


class Ssh(Model):
    """How machines are reached; a node's own values win over its cluster's."""

    user: LinuxUser | None = None
    port: Port | None = None
    key: Text | None = None
    """Path of the private key on the machine that runs bai; never the key itself."""
    jump: Address | None = None
    """Host to go through."""
    connect_timeout: Duration | None = None
    host_keys: Literal["strict", "accept-new"] | None = None
    """`strict`: only known hosts; `accept-new`: unknown ones are recorded, changed ones refused."""


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


class Defaults(Model):
    """What sessions get when they say nothing."""

    resource_group: Name | None = None
    image: Text | None = None
    env: Mapping[EnvName, Text] = {}


class ClusterSpec(Model):
    provider: Name
    """`process` (Linux processes on this machine), `docker`, ..., or the name of a plugin."""
    process: Mapping[Text, Any] = {}
    """Options of the process provider."""
    docker: Mapping[Text, Any] = {}
    kubernetes: Mapping[Text, Any] = {}
    """E.g. `context`: the kubeconfig context."""
    openstack: Mapping[Text, Any] = {}
    """E.g. `cloud`: the name in clouds.yaml."""
    backendai: Mapping[Text, Any] = {}
    """E.g. `endpoint`."""
    fake: Mapping[Text, Any] = {}
    options: Mapping[Text, Any] = {}
    """Options of a provider that is a plugin."""
    state_root: AbsolutePath | None = None
    """Where the provider keeps its own state on a machine; its default when left out."""
    ssh: Ssh = Ssh()
    networks: Networks = Networks()
    defaults: Defaults = Defaults()

    @property
    def provider_options(self) -> Mapping[str, Any]:
        """The options of the chosen provider."""
        own: Mapping[str, Any] = getattr(self, self.provider) if self.provider in PROVIDERS else {}
        return {**self.options, **own}


class Cluster(Resource):
    """An execution domain."""

    singular = "cluster"
    kind: Literal["Cluster"]
    spec: ClusterSpec
