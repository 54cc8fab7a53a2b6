"""NodeProfile: what provisioning makes of a node, one section per role. A role runs when its section is set.

Each section stands in the module of its role's name in `roles`, and its fields are the role's variables:
`variables.py` says how, `ROLES` in which order. `versions` refuses versions that cannot work together.
"""

from __future__ import annotations

from typing import Literal, get_args

from schemas.profile.roles.app_proxy import NodeAppProxy
from schemas.profile.roles.base import Base
from schemas.profile.roles.control_plane import ControlPlane
from schemas.profile.roles.docker import DockerEngine
from schemas.profile.roles.gds import Gds
from schemas.profile.roles.mig import Mig
from schemas.profile.roles.mirror import Mirror
from schemas.profile.roles.monitoring import Monitoring
from schemas.profile.roles.mps import Mps
from schemas.profile.roles.nvidia_container_toolkit import NvidiaContainerToolkit
from schemas.profile.roles.nvidia_driver import NvidiaDriver
from schemas.profile.roles.nvidia_fabricmanager import NvidiaFabricmanager
from schemas.profile.roles.rdma import Rdma
from schemas.profile.roles.repositories import Repositories
from schemas.profile.roles.storage_client import StorageClient
from schemas.values.envelope import Flag, Model, Resource
from schemas.values.quantities import Duration

ROLES = (
    "repositories",
    "base",
    "nvidia_driver",
    "nvidia_fabricmanager",
    "docker",
    "nvidia_container_toolkit",
    "rdma",
    "gds",
    "mig",
    "mps",
    "storage_client",
    "monitoring",
    "mirror",
    "control_plane",
    "app_proxy",
)
"""Every role, in the order they run in; each is a field of `NodeProfileSpec`."""

OsName = Literal["debian-12", "ubuntu-22.04", "ubuntu-24.04", "rhel-9"]
OS_NAMES: tuple[OsName, ...] = get_args(OsName)


class Reboot(Model):
    """Whether a node may be restarted when a role needs it."""

    allowed: Flag = True
    """Otherwise provisioning fails with the role that needs it and why."""
    timeout: Duration = 600
    """Until the node answers again."""


class NodeProfileSpec(Model):
    os: OsName
    """What the nodes run; a node with another one is refused. Rocky, Alma and CentOS Stream 9 count as
    `rhel-9`."""
    reboot: Reboot = Reboot()
    """Whether a node may be restarted."""
    repositories: Repositories | None = None
    """Where packages come from; the node's own sources when left out."""
    base: Base | None = None
    """The operating system below everything else."""
    nvidia_driver: NvidiaDriver | None = None
    """Kernel modules and user space of one exact version."""
    nvidia_fabricmanager: NvidiaFabricmanager | None = None
    """What sets up the NVSwitches, of the driver's version."""
    docker: DockerEngine | None = None
    """The engine that runs containers."""
    nvidia_container_toolkit: NvidiaContainerToolkit | None = None
    """GPUs inside of containers."""
    rdma: Rdma | None = None
    """Network cards that read and write memory by themselves."""
    gds: Gds | None = None
    """Storage straight into GPU memory."""
    mig: Mig | None = None
    """GPUs divided in hardware."""
    mps: Mps | None = None
    """GPUs shared by processes."""
    storage_client: StorageClient | None = None
    """File systems that are mounted on the node."""
    monitoring: Monitoring | None = None
    """Exporters of metrics."""
    control_plane: ControlPlane | None = None
    """bai's own service, its database and a registry."""
    app_proxy: NodeAppProxy | None = None
    """Where browsers come in to apps of sessions."""
    mirror: Mirror | None = None
    """The reservoir of packages and images that other nodes are served from."""

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles whose sections are set, in the order they run in."""
        return tuple(role for role in ROLES if getattr(self, role) is not None)


class NodeProfile(Resource):
    """What provisioning makes of a node, in exact versions."""

    singular = "node profile"
    kind: Literal["NodeProfile"]
    spec: NodeProfileSpec
