"""What some providers can do beside keeping kernels (`providers.base`): asked for with `isinstance`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import IO, TYPE_CHECKING, Literal, Protocol, runtime_checkable

from providers.machines.base import Stream
from providers.machines.files.folder_listing import FolderListing

if TYPE_CHECKING:
    from providers.autoscaling.values import AskedNodes, NodeRequest
    from providers.gpu.enforcement import EnforcementFacts, NodeMeans, TrialPart
    from providers.health.values import NodeHealth
    from schemas.hardware.model import Hardware


@dataclass(frozen=True, slots=True)
class Usage:
    """What one kernel has used by a moment. Counters grow until the kernel restarts; None is not known."""

    kernel: str
    at: datetime
    cpu_seconds: float | None = None
    memory: int | None = None
    """Bytes, without page cache that can be given back."""
    memory_limit: int | None = None
    network_in: int | None = None
    """Bytes received and sent, all interfaces but loopback."""
    network_out: int | None = None
    pids: int | None = None
    gpus: Mapping[str, GpuUsage] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GpuUsage:
    """One device now: busy in percent of the last sample period, and bytes of its memory."""

    busy: int | None
    memory: int | None


@dataclass(frozen=True, slots=True)
class KernelEvent:
    """Something that happened to a kernel, as told by what runs it."""

    at: datetime
    kernel: str
    node: str
    what: Literal["created", "started", "ended", "out-of-memory", "removed", "changed"]
    exit_code: int | None = None


@runtime_checkable
class ReportsHealth(Protocol):
    """Of nodes that are not to be asked by SSH."""

    def health(self, nodes: Collection[str]) -> Mapping[str, NodeHealth]:
        """Of each of these nodes that something is known of. Never raises."""
        ...


@runtime_checkable
class ReportsFractions(Protocol):
    def fractions(self, nodes: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
        """Node → means (`mps`, `hami`, `mig`) → why it cannot enforce parts of GPUs so, empty when it can.
        Nodes that cannot be reached are left out."""
        ...


@runtime_checkable
class TriesFractions(Protocol):
    """What enforces parts of GPUs counts only once it was seen to hold."""

    def fraction_means(self, nodes: Iterable[str]) -> Mapping[str, NodeMeans]:
        """By looking, like `fractions`, and what would enforce."""
        ...

    def try_fraction(self, node: str, means: str, parts: Sequence[TrialPart]) -> EnforcementFacts:
        """Take the first of these parts that disturbs nobody, see what it is held to, and give it back.
        Raises ProviderError."""
        ...


@runtime_checkable
class AcceptsLocations(Protocol):
    def locate(self, where: Mapping[str, str]) -> None:
        """Kernel → the node that it was placed on, as is on record: there it is looked for, whatever other
        nodes say."""
        ...


@runtime_checkable
class AttachesTerminal(Protocol):
    def attach(self, kernel_id: str, *, stdin: IO[bytes] | None = None) -> int:
        """Connect the caller's terminal to the kernel's main process until it ends or the detach keys
        (Ctrl-P Ctrl-Q) are typed; gives its exit code, 0 when detached."""
        ...


class TerminalStream(Protocol):
    """An open terminal with its program. One thread reads; everything else may be called from any thread, at
    any time, and `close` frees whoever waits in another call. Methods raise ProviderError where the way there
    breaks."""

    def read(self) -> bytes:
        """The next piece of output, as soon as there is one; empty at the end, and once it is closed."""
        ...

    def write(self, data: bytes) -> None:
        """Type; waits while the program takes nothing."""
        ...

    def resize(self, rows: int, columns: int) -> None: ...

    def exit_code(self) -> int | None:
        """Of the program, after the end of its output; None where nobody knows, and once it is closed."""
        ...

    def close(self) -> None:
        """Leave it: what was opened as a program of its own is hung up, and killed where it does not end by
        that; a kernel's main process goes on. Comes back when that is done. No harm in doing so again."""
        ...


@runtime_checkable
class OpensTerminals(Protocol):
    def open_terminal(self, kernel_id: str, argv: Sequence[str], size: tuple[int, int]) -> TerminalStream:
        """Run one more program in the kernel, like `Provider.execute`, on a terminal of this size (rows and
        columns). Raises NotRunning, KernelNotFound, ProviderError."""
        ...

    def attach_terminal(self, kernel_id: str, size: tuple[int, int]) -> TerminalStream:
        """The terminal of the kernel's main process. Raises NoTerminal where it has none, else as
        `open_terminal`."""
        ...


@runtime_checkable
class CopiesFiles(Protocol):
    def copy_out(self, kernel_id: str, path: str) -> Iterator[bytes]:
        """A tar stream of a file or folder of the kernel. Raises KernelRefused when it is not there."""
        ...

    def copy_in(self, kernel_id: str, path: str, archive: Iterator[bytes]) -> None:
        """Unpack a tar stream in the existing folder `path`."""
        ...


@runtime_checkable
class KeepsFiles(Protocol):
    """Files of a kernel that runs, in its own view: no link leads further than it does for the kernel. Needs
    `CopiesFiles` beside it, which gives what is in them."""

    def list_files(self, kernel_id: str, path: str, most: int) -> FolderListing:
        """The first `most` of a folder. Raises FilesRefused where it is none, NotRunning, KernelNotFound."""
        ...

    def write_file(self, kernel_id: str, path: str, size: int, data: Iterator[bytes]) -> None:
        """A file of `size` bytes that belongs to the kernel's user, whole or not at all, in place of one that
        may be there. Raises the same, and what `data` raises."""
        ...


class LogStream(Iterator[bytes]):
    """A kernel's output, as `logs` gives it to who follows. `abort`, in whatever thread, ends it for the one
    who waits for the next piece; `wake` is what that takes."""

    def __init__(self, pieces: Iterator[bytes], wake: Callable[[], None]) -> None:
        self._pieces = pieces
        self._wake = wake
        self._aborted = False

    def __next__(self) -> bytes:
        if self._aborted:
            raise StopIteration
        try:
            return next(self._pieces)
        except Exception:
            if self._aborted:
                raise StopIteration from None
            raise

    def abort(self) -> None:
        self._aborted = True
        self._wake()


@runtime_checkable
class RecallsLogs(Protocol):
    def logs_since(self, kernel_id: str, since: datetime, *, follow: bool = False) -> Iterator[bytes]:
        """A kernel's output from a time on; up to a second more where it is not known better."""
        ...


@runtime_checkable
class ForwardsPorts(Protocol):
    def dial(self, kernel_id: str, port: int) -> Stream:
        """Connect to a TCP port of the kernel."""
        ...


@runtime_checkable
class MeasuresUsage(Protocol):
    def usage(self) -> Iterator[Usage]:
        """Every live kernel's use now; a kernel that cannot be measured is left out."""
        ...


@runtime_checkable
class StreamsEvents(Protocol):
    def events(self, stop: Callable[[], bool]) -> Iterator[KernelEvent]:
        """What happens from now on, on all nodes, until `stop()` says so; reconnects by itself."""
        ...


@runtime_checkable
class SweepsLeftovers(Protocol):
    def sweep(self, kernel_id: str) -> None:
        """Clear away what a creation that was cut short left behind, where there is no kernel of this id.
        Raises ProviderError."""
        ...


@dataclass(frozen=True, slots=True)
class SetupCheck:
    """One thing that was looked at: what is so, or what is wrong, and what would help."""

    name: str
    text: str
    failed: bool = False
    hint: str = ""


@runtime_checkable
class ChecksSetup(Protocol):
    def check_setup(self) -> Iterator[SetupCheck]:
        """Whether what runs kernels has what is needed of it. Never raises."""
        ...


@runtime_checkable
class AsksForNodes(Protocol):
    """Of an autoscaler that looks after the nodes. Methods raise ProviderError."""

    def ask_for_nodes(self, request: NodeRequest) -> None:
        """Make this request, or what of it is missing; nothing where it is there."""
        ...

    def withdraw_request(self, asked: AskedNodes) -> None:
        """It goes with all that belongs to it; nothing where it is gone."""
        ...

    def requests_left(self, repo: str, cluster: str) -> Sequence[AskedNodes]:
        """Those of this repository and cluster, of a time when observations told of them; empty where nobody
        can know."""
        ...


@runtime_checkable
class ProbesHardware(Protocol):
    def hardware(self, nodes: frozenset[str]) -> tuple[Mapping[str, Hardware], Mapping[str, str]]:
        """What these nodes are, probed now, and for those that could not be reached, why."""
        ...


@runtime_checkable
class ProbesOnRequest(ProbesHardware, Protocol):
    """Of nodes that are not to be asked by SSH. What `hardware` says is what somebody else knows of them:
    documents, and earlier probes, complete it (`schemas.hardware.completion`)."""

    def probe(
        self, nodes: frozenset[str], image: str = ""
    ) -> tuple[Mapping[str, Hardware], Mapping[str, str]]:
        """What these nodes are, by a look from inside, and for those where that was not possible, why.
        `image`: of what looks, in place of the cluster's. Raises ProviderError where nobody can look at
        all."""
        ...
