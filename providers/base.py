"""The seam between bai and whatever runs kernels.

A *kernel* is one container (or process tree, pod, VM) of a session. A provider is asked for five things: what
it can
enforce, what runs, and to create, update or remove one kernel. Everything is keyed by the kernel's id, which
is derived from the
resource's identity and generation: creating twice finds the first. Every provider stores `Labels` where it
survives
the loss of bai's store, and gives them back in `Observed`.
"""

from __future__ import annotations

import enum
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import IO, Literal, Protocol

KernelState = Literal["creating", "running", "stopping", "exited", "lost"]


class Limit(enum.StrEnum):
    """A limit that a provider may or may not be able to enforce; the plan warns by name about those it
    cannot."""

    CPUSET = "cpuset"
    CPU_SHARE = "cpu-share"
    MEMSET = "memory-nodes"
    MEMORY = "memory"
    PIDS = "pids"
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
    """The kernel's placement (planner.types.KernelPlacement) as canonical JSON: what devices it holds."""


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


@dataclass(frozen=True, slots=True)
class File:
    """A small text that a kernel is given to read. The provider chooses where it lies, outside of what the
    kernel may write, and sets `variable` to its path as the kernel sees it."""

    name: str
    """One path component, unique within the kernel."""
    content: str
    variable: str


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
    """Shared CPU in thousandths of a core (quota/weight) when not exclusive."""
    memory_nodes: tuple[int, ...] = ()
    memory: int = 0
    """Bytes; 0 means unlimited."""
    shm: int = 0
    pids: int = 0
    devices: tuple[str, ...] = ()
    """Device nodes or vendor device ids, by provider."""
    mounts: tuple[Mount, ...] = ()
    files: tuple[File, ...] = ()
    ports: tuple[int, ...] = ()
    restart: RestartRule = RestartRule()
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
    """Why it ended, where known: `exit`, `signal 9`, `out-of-memory`, `timeout`, `stopped`."""
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
    env_digest: str = ""


@dataclass(frozen=True, slots=True)
class Observation:
    """What runs. `complete` is False when anything could not be read: then absence means nothing.
    `unlabelled`: ids found that carry no readable labels."""

    kernels: tuple[Observed, ...]
    complete: bool = True
    errors: tuple[str, ...] = ()
    unlabelled: tuple[str, ...] = ()


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
    """Enforcement means available for GPU fractions: `mps`, `hami`, `mig`."""


class Provider(Protocol):
    """One agent provider. Methods raise `ProviderError` only; `ProviderUnavailable` and its kind are
    retryable."""

    def capabilities(self) -> Capabilities: ...

    def observe(self) -> Observation:
        """All kernels of all owners; never raises for one bad kernel, says `complete=False` instead."""
        ...

    def create(self, spec: KernelSpec) -> Observed:
        """Create and start. Idempotent by `spec.id`: an existing kernel with the same id is adopted and
        returned."""
        ...

    def update(self, kernel_id: str, spec: KernelSpec) -> Observed:
        """Bring an existing kernel's in-place fields and labels to `spec`."""
        ...

    def stop(self, kernel_id: str, *, grace: float, signal: str = "") -> Observed:
        """Stop gracefully, then kill the whole tree; the record, exit code and logs stay. Stopping an exited
        one is a no-op. `signal` (a name) is sent in place of the kernel's own stop signal."""
        ...

    def remove(self, kernel_id: str) -> None:
        """Stop at once if need be and remove every trace. Removing what is not there is a no-op."""
        ...

    def logs(self, kernel_id: str, *, follow: bool = False, tail: int | None = None) -> Iterator[bytes]: ...

    def execute(
        self, kernel_id: str, argv: tuple[str, ...], *, stdin: IO[bytes] | None = None, tty: bool = False
    ) -> int:
        """Run a command inside the kernel's limits and view, attached to the caller's stdio; gives its exit
        code."""
        ...


def env_digest(env: Mapping[str, str]) -> str:
    """Sixteen hex digits of the SHA-256 of an environment (without secrets), independent of order."""
    text = json.dumps(dict(env), sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
