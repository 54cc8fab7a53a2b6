"""`run_bai`: a command line in a process of its own, as by `subprocess.run`, but forked from one that has
imported what commands need (`fork_server.py`)."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from tests.harness.fork_client import ForkClient, Started

BAI = Path(sys.executable).with_name("bai")
_ROOT = Path(__file__).resolve().parents[2]
File = int | IO[Any] | None
"""As `subprocess` takes it."""
Done = subprocess.CompletedProcess[str]
_STARTUP = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC_", "GLIBC_", "OPENSSL_", "OPENBLAS_", "OMP_")
"""How the names of variables begin that an interpreter and its libraries read before any module does."""
_COVERAGE = ("COV_", "COVERAGE_")
_INHERITED = ("Uid", "Gid", "Groups", "Umask", "Sig", "Cap", "NoNewPrivs", "Seccomp", "Cpus_allowed")
"""Lines of /proc/PID/status that a process has from whoever starts it."""
_CAUGHT = ("SigQ", "SigPnd", "SigCgt")
_MOST = 3
_STAYING = ("bai.web.app", "uvicorn")
"""What commands import once they have begun to stay: killed, they tell nobody what that was."""


@dataclass(frozen=True)
class Command:
    """A command line of bai, and what its process is given."""

    words: Sequence[str]
    environment: Mapping[str, str]
    folder: Path
    stdin: File = subprocess.DEVNULL
    stdout: File = subprocess.PIPE
    stderr: File = subprocess.PIPE
    limits: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    """By numbers of `resource`."""
    first: str = ""
    """`MODULE:FUNCTION`: called in the process before the command, to change something in it. The module does
    nothing when it is imported."""

    @property
    def argv(self) -> list[str]:
        return [str(BAI), *self.words]

    @property
    def new_argv(self) -> list[str]:
        """Of a process that imports all of it."""
        if not self.first:
            return self.argv
        module, _, name = self.first.partition(":")
        program = f"import sys; sys.path.insert(0, {str(_ROOT)!r}); from {module} import {name}; {name}(); "
        return [sys.executable, "-c", f"{program}from bai.cli.main import main; main()", *self.words]


def run_bai(command: Command, *, timeout: float) -> Done:
    """What it said, and its exit code; minus the signal's number if one killed it."""
    client = client_for(command.environment)
    if client is None:
        return run_new(command, timeout=timeout)
    files = (command.stdin, command.stdout, command.stderr)
    return client.run(_request(command), files, timeout) or run_new(command, timeout=timeout)


def start_bai(command: Command) -> Started | subprocess.Popen[bytes]:
    """The same for a command that stays until it gets a signal; its streams are files. It ends with this
    process."""
    client = client_for(command.environment)
    files = (command.stdin, command.stdout, command.stderr)
    if client is not None:
        client.import_first(_STAYING)
        if started := client.start(_request(command), files):
            return started
    return subprocess.Popen(
        command.new_argv, cwd=command.folder, env=command.environment, stdin=files[0], stdout=files[1],
        stderr=files[2],
    )  # fmt: skip


def _request(command: Command) -> dict[str, Any]:
    return {
        "words": command.argv,
        "environment": dict(command.environment),
        "folder": str(command.folder),
        "limits": list(command.limits.items()),
        "first": command.first,
    }


def client_for(environment: Mapping[str, str]) -> ForkClient | None:
    """Of a server whose forks are what new processes in this environment are; None if there is none."""
    return _clients.find(environment)


def run_new(command: Command, *, timeout: float) -> Done:
    """The same by a process that imports all of it."""

    def limit() -> None:
        for number, value in command.limits.items():
            resource.setrlimit(number, value)

    return subprocess.run(
        command.new_argv,
        cwd=command.folder,
        env=command.environment,
        stdin=command.stdin,
        stdout=command.stdout,
        stderr=command.stderr,
        preexec_fn=limit if command.limits else None,
        encoding="utf-8",
        timeout=timeout,
        check=False,
    )


def _circumstances() -> list[str]:
    """What a process inherits from the thread that starts it, beside what it is told."""
    here = Path("/proc/thread-self")
    links = [here / "root", *sorted((here / "ns").iterdir())]
    status = [
        line
        for line in (here / "status").read_text().splitlines()
        if line.startswith(_INHERITED) and not line.startswith(_CAUGHT)
    ]
    return [
        *map(os.readlink, links),
        *status,
        (here / "limits").read_text(),
        (here / "cgroup").read_text(),
    ]


class _Clients:
    """Of the servers of this process: one for each way in which an interpreter would start."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._here: list[str] | None = None
        self._clients: dict[frozenset[tuple[str, str]], ForkClient] = {}

    def find(self, environment: Mapping[str, str]) -> ForkClient | None:
        """None where a fork would not be what a new process of this thread is."""
        if any(name.startswith(_COVERAGE) for name in environment):
            return None
        startup = {name: value for name, value in environment.items() if name.startswith(_STARTUP)}
        try:
            here = _circumstances()
        except OSError:
            return None
        with self._lock:
            if here != (self._here or here):
                return None
            self._here = here
            return self._started(startup)

    def _started(self, startup: Mapping[str, str]) -> ForkClient | None:
        key = frozenset(startup.items())
        client = self._clients.get(key)
        if client and client.lives():
            return client
        if not client and len(self._clients) >= _MOST:
            return None
        rest = {name: value for name, value in os.environ.items() if not name.startswith(_STARTUP)}
        self._clients[key] = ForkClient({**rest, **startup})
        return self._clients[key]


_clients = _Clients()
