"""A node as providers reach it: commands, files and sockets, on this machine or over SSH.

`Machine` is the seam; `providers.machines.local` and `providers.machines.ssh` carry it out, and
`providers.machines.connections.connect` chooses. Providers never ask which one they have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from schemas.kinds.cluster import Ssh


def _no_values() -> Ssh:
    """Imported when one is made: who only names a machine need not load the models."""
    from schemas.kinds.cluster import Ssh

    return Ssh()


def no_secret(reference: str) -> str:
    """Raises SecretMissing."""
    from schemas.problems.errors.plan import SecretMissing

    raise SecretMissing(reference=reference, why="nobody was given who reads it")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a node is. `ssh` has the node's own values over its cluster's; `options`: the node's own options
    for its provider, as written in its document; `secret` reads what these name of secret stores."""

    name: str
    address: str
    """Host name or IP address."""
    local: bool = False
    """This very machine: reached without SSH."""
    ssh: Ssh = field(default_factory=_no_values)
    options: Mapping[str, Any] = field(default_factory=dict)
    secret: Callable[[str], str] = field(default=no_secret, repr=False, compare=False)


LARGEST = 64 * 2**20
"""Bytes of what a command or a service of a node may answer: who answers may be anybody who has taken it
over."""


@dataclass(frozen=True, slots=True)
class Done:
    """A command that ended."""

    code: int
    out: bytes
    err: bytes


class Stream(Protocol):
    """A connected byte stream, with the methods of a socket that HTTP clients and copy loops use."""

    def recv(self, size: int, /) -> bytes: ...

    def sendall(self, data: bytes, /) -> None: ...

    def shutdown(self, how: int, /) -> None: ...

    def settimeout(self, seconds: float | None, /) -> None: ...

    def fileno(self) -> int: ...

    def close(self) -> None: ...


class Process(Protocol):
    """A command that runs on the machine and is talked to."""

    def write(self, data: bytes) -> None: ...

    def close_stdin(self) -> None: ...

    def read(self) -> Iterator[bytes]:
        """Standard output (and error, with a terminal) as it comes, until the end."""
        ...

    def errors(self) -> bytes:
        """What it wrote to standard error so far, its last 64 KiB; nothing with a terminal."""
        ...

    def resize(self, rows: int, columns: int) -> None: ...

    def wait(self) -> int:
        """Its exit code; 128 and the signal's number where it was killed."""
        ...

    def close(self) -> None:
        """End it if it still runs, and give back what it holds here."""
        ...


class Machine(Protocol):
    """One node. All methods raise `ProviderUnavailable` when it cannot be reached (retryable), may be called
    from several threads, and reconnect by themselves."""

    @property
    def name(self) -> str: ...

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        timeout: float = 60,
    ) -> Done:
        """Run to the end, without a shell reading `argv`; a command that is not there gives code 127. Raises
        MachineRefused where another machine says more than `LARGEST`."""
        ...

    def start(self, argv: Sequence[str], *, tty: bool = False) -> Process:
        """Run, to be talked to."""
        ...

    def put(self, path: str, content: bytes, *, mode: int = 0o600) -> None:
        """Write a file at once, with the folders above it (0700 where they are made)."""
        ...

    def get(self, path: str) -> bytes:
        """Raises FileNotFoundError."""
        ...

    def dial(self, target: str | tuple[str, int]) -> Stream:
        """Connect from the machine to a unix socket (a path) or a TCP address."""
        ...

    def close(self) -> None: ...
