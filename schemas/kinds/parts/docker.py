"""Options of the docker provider, for a whole cluster (`Cluster.spec.docker`) and for one node
(`Node.spec.docker`), whose values win."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, WithJsonSchema

from schemas.kinds.parts.docker_network import NetworkRules
from schemas.problems.issues import value_error
from schemas.problems.text import did_you_mean, format_value
from schemas.values.envelope import Flag, Model, Positive
from schemas.values.names import AbsolutePath, SecretReference, Text
from schemas.values.naturals import parse_natural
from schemas.values.quantities import Duration, Memory

CAPABILITY_NAMES = (
    *("ALL", "AUDIT_CONTROL", "AUDIT_READ", "AUDIT_WRITE", "BLOCK_SUSPEND", "BPF", "CHECKPOINT_RESTORE"),
    *("CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "IPC_LOCK", "IPC_OWNER", "KILL"),
    *("LEASE", "LINUX_IMMUTABLE", "MAC_ADMIN", "MAC_OVERRIDE", "MKNOD", "NET_ADMIN", "NET_BIND_SERVICE"),
    *("NET_BROADCAST", "NET_RAW", "PERFMON", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYSLOG", "SYS_ADMIN"),
    *("SYS_BOOT", "SYS_CHROOT", "SYS_MODULE", "SYS_NICE", "SYS_PACCT", "SYS_PTRACE", "SYS_RAWIO"),
    *("SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "WAKE_ALARM"),
)
"""As capabilities(7) names them, without `CAP_`; engines refuse any other name when a container is made."""
HELD_CAPABILITIES = frozenset({
    "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "IPC_LOCK", "IPC_OWNER", "KILL", "LEASE",
    "NET_BIND_SERVICE", "NET_BROADCAST", "NET_RAW", "SETFCAP", "SETGID", "SETPCAP", "SETUID",
    "SYS_CHROOT", "SYS_NICE", "SYS_PTRACE",
})  # fmt: skip
"""Those that a container's namespaces hold: Docker's own default without MKNOD (a disk's device in a volume
is there for others, too), and what computing needs. With any other one, root of a container is root of its
node, or may change its clock or its network."""
DEFAULT_CAPABILITIES = (
    "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "NET_BIND_SERVICE", "SETGID", "SETUID", "SYS_CHROOT",
)  # fmt: skip
"""What root inside a container may do. Of the engine's own default, AUDIT_WRITE, MKNOD, NET_RAW, SETFCAP and
SETPCAP are left out: making devices, raw packets and giving capabilities away are no part of computing."""
CAPABILITY_PATTERN = f"^(CAP_)?({'|'.join(CAPABILITY_NAMES)})$"


def _validate_capability(value: str) -> str:
    name = value.removeprefix("CAP_")
    if name in CAPABILITY_NAMES:
        return name
    hint = did_you_mean(name, CAPABILITY_NAMES)
    raise value_error(
        f"{format_value(value)} is not a Linux capability such as NET_BIND_SERVICE", hint, "BAI-V033"
    )


def _validate_default_capability(value: str) -> str:
    """Of the default only: more is asked for by sessions, where resource groups and policies judge it."""
    name = _validate_capability(value)
    if name in DEFAULT_CAPABILITIES:
        return name
    message = f"{name} is none of those that root of a container has: {', '.join(DEFAULT_CAPABILITIES)}"
    hint = "sessions ask for more in container.capabilities, which allowCapabilities of their group limits"
    raise value_error(message, hint, "BAI-V050")


def _validate_host(value: str) -> str:
    rest = value.removeprefix("tcp://")
    name, colon, port = rest.rpartition(":")
    if rest != value and colon and name and parse_natural(port, 65_535):
        return value
    raise value_error(f"{format_value(value)} is not of the form tcp://host:port", code="BAI-V033")


Capability = Annotated[
    str,
    AfterValidator(_validate_capability),
    WithJsonSchema({"type": "string", "pattern": CAPABILITY_PATTERN}),
]
_DEFAULT_PATTERN = f"^(CAP_)?({'|'.join(DEFAULT_CAPABILITIES)})$"
DefaultCapability = Annotated[
    str,
    AfterValidator(_validate_default_capability),
    WithJsonSchema({"type": "string", "pattern": _DEFAULT_PATTERN}),
]
Host = Annotated[
    str,
    AfterValidator(_validate_host),
    WithJsonSchema({"type": "string", "pattern": r"^tcp://[^\u0000-\u0020]{1,253}:[0-9]{1,5}$"}),
]


CONNECTION_FIELDS = ("socket", "host", "context")
"""Options that say how an engine is reached: one of them is given."""


class Tls(Model):
    """Entries of secret stores (`STORE/ENTRY`), as PEM."""

    ca_from: SecretReference
    """Certificates that the engine's own is checked against."""
    cert_from: SecretReference | None = None
    """Our certificate and key, where the engine asks for them."""
    key_from: SecretReference | None = None


class Docker(Model):
    """How a node's engine is reached and used."""

    socket: AbsolutePath | None = None
    """The engine's socket on the node, reached over the node's own connection; /var/run/docker.sock when left
    out."""
    host: Host | None = None
    """`tcp://host:port`: the engine itself listens there; give `tls` too."""
    tls: Tls | None = None
    context: Text | None = None
    """Name of a docker context on the machine that runs bai, in place of `socket` and `host`."""
    observe_timeout: Annotated[Duration, Field(ge=1, le=600)] | None = None
    """Longest silence of the engine when all nodes are looked at; 20s when left out. A node that is silent
    for longer is not observed in this pass, and what is on it stays as it is. It is asked again at growing
    intervals."""
    gpus: Literal["auto", "cdi", "device-request", "runtime"] | None = None
    """How GPUs reach a container; `auto` (the default) takes what the engine has, in this order."""
    runtime: Text | None = None
    """OCI runtime of the engine, where it is not the engine's default."""
    cgroup_parent: Text | None = None
    """Control group under which containers are made, where it is not the engine's default."""
    capabilities: tuple[DefaultCapability, ...] | None = None
    """Of the default capabilities of root in a container, those that it keeps; all when left out, none with
    `[]`. A session asks for others in `container.capabilities`."""
    init: Flag | None = None
    """Gives every container a small first process, which passes signals on and buries orphans; not for images
    that bring their own."""
    userns: Literal["host"] | None = None
    """`host`: containers opt out of an engine's user namespace."""
    state: AbsolutePath | None = None
    """Folder on the node, in memory, for what containers are given to read; /run/bai/docker when left out.
    Nobody but root and bai's user may be able to replace it or a folder above it, and no link is followed."""
    hami: AbsolutePath | None = None
    """HAMi-core's libvgpu.so on the node, where it is not at one of the usual places."""
    log_size: Memory | None = None
    """Most bytes of one file of a container's log (10 MiB), and how many there are (3)."""
    log_files: Positive | None = None

    @property
    def options_set(self) -> dict[str, Any]:
        """What was said, as written."""
        return self.model_dump(by_alias=True, exclude_none=True, exclude_unset=True)


class ClusterDocker(Docker, NetworkRules):
    """How the nodes' engines are reached and used, and how containers are connected."""
