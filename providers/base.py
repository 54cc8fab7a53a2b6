"""The seam between bai and whatever runs kernels.

A *kernel* is one container (or process tree, pod, VM) of a session. A provider is asked for five things: what
it can enforce, what runs, and to create, update or remove one kernel. Everything is keyed by the kernel's id,
which is derived from the resource's identity and generation: creating twice finds the first. Every provider
stores `Labels` where it survives the loss of bai's store, and gives them back in `Observed`.

What only some providers can do besides (`attach`, copy, forward, measure, ...) stands in `abilities.py`. What
all of them promise is tested by `providers.conformance`.
"""

from __future__ import annotations

import enum
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import PurePosixPath
from typing import IO, Literal, Protocol

from providers.autoscaling.values import NodeAsks
from providers.foreign_use import ForeignUse, OfferedDevices, OutsideQuota
from providers.gpu.gpu_share import GpuShare

ImageState = Literal["same", "another", "gone"]
KernelState = Literal["creating", "starting", "running", "stopping", "exited", "lost"]
"""`creating`: only another `create` brings it further; `starting`: its engine does, which may take long."""


class Limit(enum.StrEnum):
    """What a provider may or may not be able to enforce; the plan warns by name where it cannot."""

    CPUSET = "cpuset"
    CPU_SHARE = "cpu-share"
    MEMSET = "memory-nodes"
    MEMORY = "memory"
    HUGEPAGES = "hugepages"
    PIDS = "pids"
    SCRATCH = "scratch"
    DEVICES = "devices"
    FRACTION = "gpu-fraction"
    FILESYSTEM = "filesystem-isolation"


@dataclass(frozen=True, slots=True)
class Labels:
    """Ownership, written on every kernel. `document` is the session document as canonical JSON without
    secrets, so that a lost store can be rebuilt."""

    repo: str
    cluster: str
    resource: str
    """Identity, e.g. `Session/vision/llama-sft`."""
    generation: int
    digest: str
    """Digest of the spec this kernel was made from."""
    kernel: str
    """Name within the session: `main1`, `sub2`."""
    node: str
    protected: bool = False
    commit: str = ""
    document: str = ""
    placement: str = ""
    """Its placement (planner.model.types.KernelPlacement) as canonical JSON: what devices it holds."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A folder given to a kernel: `source` is an absolute path under a storage host's root, already resolved
    and checked."""

    source: str
    target: str
    read_only: bool = False
    root: str = ""
    """The storage host's root that `source` must lie under; a missing folder below it is made.

    Empty: `source` must be there, and is only checked for links on the way.
    """
    file_systems: tuple[str, ...] = ()
    """Types (as in /proc/self/mountinfo) of which the root's file system must be one; empty: any. A root that
    is not mounted must not be filled on the node's own disk."""
    sub_path: str = ""
    """The end of `source` that lies inside a volume. Sessions that may write to the volume can put a link
    there at any time: it is opened without following any, never mounted by its path."""
    server: str = ""
    """The NFS server that `source` and `root` are paths of; empty: they are the node's."""
    claim: str = ""
    """The PersistentVolumeClaim that the volume is: `source` lies in it, and `root` is `/`."""

    @property
    def volume(self) -> str:
        """The volume's own folder, which no session can replace."""
        return self.source.removesuffix(f"/{self.sub_path}") if self.sub_path else self.source

    @property
    def beneath(self) -> tuple[str, str]:
        """A folder that may be reached through links, and the way on from there, which may not have any: what
        `providers.storage.beneath.open_beneath` takes, at each start anew."""
        root = self.root or "/"
        return root, str(PurePosixPath(self.source).relative_to(root))


@dataclass(frozen=True, slots=True)
class File:
    """A small text that a kernel is given to read. The provider chooses where it lies, outside of what the
    kernel may write, and sets `variable` to its path as the kernel sees it."""

    name: str
    """One path component, unique within the kernel."""
    content: str
    variable: str


@dataclass(frozen=True, slots=True)
class Published:
    """A port of a kernel that is reached at a port of its node."""

    port: int
    on: int
    udp: bool = False


@dataclass(frozen=True, slots=True)
class Network:
    """What a kernel is connected to.

    `default`: the provider's usual network. `host`: the node's own. `bridge`: a network of the session's own
    on one node. `overlay`: one that spans the cluster's nodes. `pods`: that of all pods of a Kubernetes
    cluster, where a session has names of its own. A provider makes a named network with the first kernel that
    asks for it and removes it with the last.
    """

    mode: Literal["default", "host", "bridge", "overlay", "pods"] = "default"
    name: str = ""
    """Of a `bridge` or `overlay`, or of a session's names: the same for all kernels of its generation."""
    aliases: tuple[str, ...] = ()
    """Names that this kernel answers to on its network: `main1`."""
    hosts: Mapping[str, str] = field(default_factory=dict)
    """Host name → address (or a name that the node resolves), where the network has no names of its own."""
    published: tuple[Published, ...] = ()


@dataclass(frozen=True, slots=True)
class Peer:
    """A kernel as the others of its session reach it by SSH."""

    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class SshLogin:
    """How the kernels of a session log in to each other, where their image has SSH. All use one key pair."""

    port: int
    """Where this kernel's own server listens."""
    peers: tuple[Peer, ...]
    """Every kernel of the session, this one too."""
    reference: str
    """Of the seed that the key pair is made from: `session-key:...`, resolved only while applying."""
    seed: str = field(default="", repr=False)
    """Hexadecimal; like `secret_env`, never in labels, logs, plan or store."""
    slots: Mapping[str, int] = field(default_factory=dict)
    """Kernel → processes that a launcher starts there when nobody says."""


@dataclass(frozen=True, slots=True)
class RestartRule:
    policy: Literal["never", "on-failure", "always"] = "never"
    max: int = 0
    """Most restarts; 0 means none for `never`, unlimited otherwise."""


@dataclass(frozen=True, slots=True)
class KernelSpec:
    """What to create, complete: the provider decides nothing."""

    id: str
    """Deterministic, safe as a path and hostname: `<session>-<kernel>-<hash>-g<generation>`."""
    labels: Labels
    command: tuple[str, ...]
    env: Mapping[str, str]
    secret_env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Values that must never reach labels, logs, plan or store."""
    workdir: str = ""
    """Inside the kernel; empty is the kernel's own scratch directory."""
    image: str = ""
    hostname: str = ""
    cpus: tuple[int, ...] = ()
    """Logical CPU numbers; empty means not pinned."""
    cpu_milli: int = 0
    """Shared CPU in thousandths of a core (quota/weight) when not exclusive; 0 means unlimited."""
    memory_nodes: tuple[int, ...] = ()
    memory: int = 0
    """Bytes; 0 means unlimited."""
    shm: int = 0
    hugepages: Mapping[str, int] = field(default_factory=dict)
    """Slot (`hugepages-2Mi`) → bytes."""
    pids: int = 0
    scratch: int = 0
    """Bytes that its own files may take on the node's disk; 0 means unlimited."""
    devices: tuple[str, ...] = ()
    """Device nodes or vendor device ids, by provider."""
    parts: tuple[str, ...] = ()
    """Those of `devices` of which it has a part: others may have the rest."""
    nics: tuple[str, ...] = ()
    """RDMA devices of the mapping (`mlx5_0`); only these reach the kernel."""
    share: GpuShare | None = None
    """How a part of a GPU is limited; None for whole devices and for kernels without any."""
    uid: int | None = None
    """Its project's Linux user, and group, from 1000 on: whom it runs as where neither `user` nor the image
    says otherwise. Native processes do where the provider is root."""
    groups: tuple[int, ...] = ()
    """Further Linux groups: those of its volumes."""
    user: str = ""
    """`uid[:gid]`, a name of the image, or root where that is allowed; empty: nobody in particular."""
    others: str = ""
    """Linux users and groups of other projects that an image could name, as ranges (`4200-4210`)."""
    read_only_root: bool = False
    ulimits: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Name (`nofile`, `memlock`, ...) → soft and hard limit; -1 is unlimited."""
    capabilities: tuple[str, ...] = ()
    """Linux capabilities beyond the provider's small default, without `CAP_`."""
    network: Network = Network()
    login: SshLogin | None = None
    """None for sessions of one kernel, and where the provider offers none."""
    mounts: tuple[Mount, ...] = ()
    files: tuple[File, ...] = ()
    ports: tuple[int, ...] = ()
    restart: RestartRule = RestartRule()
    tty: bool = False
    """Its main process has a terminal, kept open for `attach`."""
    stop_signal: str = "SIGTERM"
    stop_grace: float = 10.0
    timeout: float = 0.0
    """Seconds of running after which the supervisor stops it; 0 means none."""


@dataclass(frozen=True, slots=True)
class Observed:
    """One kernel as it is now."""

    id: str
    labels: Labels
    state: KernelState
    exit_code: int | None = None
    reason: str = ""
    """Why it ended, where known: `exit`, `signal 9`, `out-of-memory`, `timeout`, `stopped`, or
    `scratch-full:` with what it used and was allowed."""
    created: datetime | None = None
    started: datetime | None = None
    finished: datetime | None = None
    restarts: int = 0
    pid: int | None = None
    cpus: tuple[int, ...] = ()
    """As read back from the world, not as asked for."""
    memory_nodes: tuple[int, ...] = ()
    memory: int = 0
    pids: int = 0
    scratch: int = 0
    env_digest: str = ""
    image: str = ""
    """The name of the image that it was made from, where the provider has images."""
    image_now: ImageState = "same"
    """What its node means by that name now: an image can lose its name, and another one get it."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A node says that it has a kernel which was made for another one."""

    kernel: str
    node: str


@dataclass(frozen=True, slots=True)
class Observation:
    """What runs. `complete` is False when anything could not be read: then absence means nothing.
    `unlabelled`: ids found that carry no readable labels; `claimed`: not believed, and in no other field."""

    kernels: tuple[Observed, ...]
    complete: bool = True
    errors: tuple[str, ...] = ()
    unlabelled: tuple[str, ...] = ()
    claimed: tuple[Claim, ...] = ()
    unreachable: Mapping[str, str] = field(default_factory=dict)
    """Node → why it could not be asked: kernels there may run or not. All others were seen completely."""
    cordoned: Mapping[str, str] = field(default_factory=dict)
    """Node → why what runs kernels there wants no new ones."""
    foreign: tuple[ForeignUse, ...] = ()
    quotas: tuple[OutsideQuota, ...] = ()
    """What others hold kernels to, beside the room of the nodes."""
    offered: OfferedDevices | None = None
    """None: nobody can withdraw devices here."""
    node_asks: NodeAsks | None = None
    """None: nobody is asked for nodes here."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What this provider can do on this machine, and why not where it cannot (`limits_missing`: limit →
    reason)."""

    name: str
    limits: frozenset[Limit]
    limits_missing: Mapping[Limit, str] = field(default_factory=dict)
    in_place: frozenset[str] = frozenset()
    """KernelSpec fields that `update` changes without a restart: `cpus`, `memory`, ..."""
    fractions: frozenset[str] = frozenset()
    """Enforcement means available for GPU fractions on every node: `mps`, `hami`, `mig`."""
    timeouts: bool = False
    """A kernel that runs longer than its `KernelSpec.timeout` is ended without anybody's help."""
    pulls: bool = False
    """Whether it fetches images (`providers.images.PullsImages`)."""
    node_fractions: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The same by node, where nodes differ; a node that is missing has `fractions`."""
    no_fractions: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Node → means → why it cannot enforce fractions so."""
    overlays: Mapping[str, str] = field(default_factory=dict)
    """Node → what it belongs to (a Docker Swarm's id): networks of kernels can span nodes of equal value."""
    no_overlay: Mapping[str, str] = field(default_factory=dict)
    """Node → why no network of kernels can span it and others."""
    shared_root: frozenset[str] = frozenset()
    """Nodes whose containers have no user namespace: root inside is root of the node's kernel."""
    missing_on: Mapping[Limit, frozenset[str]] = field(default_factory=dict)
    """Missing limit → the nodes that lack it, where nodes differ; one that is not here is missing on all."""
    cautions: tuple[str, ...] = ()
    """What is weaker here than it looks, in words: said with plans that start something."""
    weaker: Mapping[Limit, str] = field(default_factory=dict)
    weaker_on: Mapping[Limit, frozenset[str]] = field(default_factory=dict)
    """Limit that is kept → what is weaker than it looks, said for who has one; and where, if not on all."""
    undivided: Mapping[str, str] = field(default_factory=dict)
    """Node → why nobody can be given a part of a GPU there."""


Fence = Callable[[], None]
"""Raises LeaseLost when who asks for an effect is no longer the one who may."""


def unfenced() -> None:
    """Nobody else has a say."""


class Provider(Protocol):
    """Methods raise `ProviderError` only; `ProviderUnavailable` and its kind are retryable."""

    def capabilities(self) -> Capabilities: ...

    def observe(self) -> Observation:
        """All kernels of all owners; never raises for one bad kernel, says `complete=False` instead."""
        ...

    def create(self, spec: KernelSpec, fence: Fence = unfenced) -> Observed:
        """Create and start. Idempotent by `spec.id`: an existing kernel with the same id is adopted and
        returned.

        `fence` is called when others can observe the kernel, and before it starts. What it raises is raised
        after the kernel was removed again.
        """
        ...

    def update(self, kernel_id: str, spec: KernelSpec, fence: Fence = unfenced) -> Observed:
        """Bring an existing kernel's in-place fields and labels to `spec`; `fence` is called right before,
        and what it raises leaves the kernel as it is."""
        ...

    def stop(self, kernel_id: str, *, grace: float, signal: str = "") -> Observed:
        """Stop gracefully, then kill the whole tree; the record, exit code and logs stay. Stopping an exited
        one is a no-op.

        `signal` (a name) is a notice, to save work: it is sent first, and whoever has not ended by itself
        after `grace` seconds is stopped as usual, by its own signal and `KernelSpec.stop_grace`.
        """
        ...

    def remove(self, kernel_id: str) -> None:
        """Stop at once if need be and remove every trace. Removing what is not there is a no-op."""
        ...

    def logs(self, kernel_id: str, *, follow: bool = False, tail: int | None = None) -> Iterator[bytes]: ...

    def execute(
        self, kernel_id: str, argv: tuple[str, ...], *, stdin: IO[bytes] | None = None, tty: bool = False
    ) -> int:
        """Run a command in the kernel's limits and view, on the caller's stdio; gives its exit code."""
        ...

    def close(self) -> None:
        """Give up connections to nodes; kernels go on running."""
        ...


def env_digest(env: Mapping[str, str]) -> str:
    """Sixteen hex digits of the SHA-256 of an environment (without secrets), independent of order."""
    text = json.dumps(dict(env), sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
