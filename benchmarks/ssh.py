"""SSH by paramiko (as bai has it), by asyncssh and by OpenSSH's multiplexing, on a real server here.

    sudo python -m benchmarks.ssh --rounds 5 --json result.json

Each figure is the median of processes of their own, one after another in turn; CPU time is the client's alone
(with OpenSSH's own processes). asyncssh is left out where it is not installed (`pip install asyncssh`).
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.results import keep, parser_of
from benchmarks.ssh_clients import CLIENTS, Job
from tests.lab.sshd import SshdNode, SshdNodes, why_not

ROOT = Path(__file__).resolve().parent.parent
SIZE = 64 << 20
COUNTS = {"login": 10, "commands": 50, "streams": 200, "trips": 1000, "down": 1, "up": 1}
"""Of what is measured in each round, how many."""
UNITS = {
    "login": "ms to log in and run a command",
    "commands": "ms per command on an open connection",
    "streams": "ms to open a stream to a unix socket, with a byte there and back",
    "trips": "ms per byte there and back on an open stream",
    "down": "ms per MiB received",
    "up": "ms per MiB sent",
}
KEEP_ALIVE = 1
SHORTEST = 30
"""Seconds that a child may take beside what it measures."""


class Target:
    """The unix socket that streams go to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(path))
        self._server.listen(256)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            threading.Thread(target=self._serve, args=(self._server.accept()[0],), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            first = connection.recv(1)
            if first == b"z":
                connection.sendall(bytes(SIZE))
            elif first == b"s":
                left = SIZE
                while left > 0 and (data := connection.recv(1 << 18)):
                    left -= len(data)
                connection.sendall(b".")
            elif first == b"e":
                connection.sendall(first)
                while data := connection.recv(1 << 16):
                    connection.sendall(data)


def measure(clients: list[str], rounds: int, hosts: int) -> dict[str, Any]:
    """Every median, by what is measured and client."""
    with contextlib.closing(SshdNodes()) as nodes, tempfile.TemporaryDirectory() as folder:
        node = nodes.private()
        target = Target(Path(folder) / "target")

        def once(client: str, do: str, count: int, keep_alive: int = 15) -> Any:
            files = {"key": str(nodes.key), "known_hosts": str(nodes.known_hosts), "folder": folder}
            job = Job(
                client, do, node.address, target=str(target.path), count=count, size=SIZE,
                keep_alive=keep_alive, **files,
            )  # fmt: skip
            return _child(nodes, node, job)

        found: dict[str, Any] = {"import": _imports(clients, rounds)}
        for do, count in COUNTS.items():
            samples: dict[str, list[dict[str, float]]] = {client: [] for client in clients}
            for _ in range(rounds):
                for client in clients:
                    samples[client].append(once(client, do, count))
            found[do] = {client: _medians(samples[client]) for client in clients}
        found["fleet"] = {client: once(client, "fleet", hosts) for client in clients}
        found["silence"] = {
            client: round(once(client, "silence", 1, keep_alive=KEEP_ALIVE), 1) for client in clients
        }
        found["signals"] = {client: once(client, "signals", 1) for client in clients}
    return found


def _child(nodes: SshdNodes, node: SshdNode, job: Job) -> Any:
    argv = nodes.command([sys.executable, "-m", "benchmarks.ssh_clients", json.dumps(asdict(job))])
    environment = {**os.environ, "HOME": str(nodes.home)}
    environment.pop("SSH_AUTH_SOCK", None)
    with subprocess.Popen(argv, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        with _cut(node, child.stdout.readline() == "ready\n") if job.do == "silence" else _nothing():
            text = child.stdout.read()
    if child.returncode or not text:
        raise SystemExit(f"{job.client} could not do {job.do}")
    return json.loads(text)


@contextlib.contextmanager
def _cut(node: SshdNode, ready: bool) -> Iterator[None]:
    """The node's cable is cut for as long as it lasts."""
    if ready:
        node.link(up=False)
    try:
        yield
    finally:
        node.link(up=True)


def _nothing() -> contextlib.AbstractContextManager[None]:
    return contextlib.nullcontext()


def _medians(samples: list[dict[str, float]]) -> dict[str, float]:
    return {name: round(statistics.median(each[name] for each in samples), 3) for name in samples[0]}


def _imports(clients: list[str], rounds: int) -> dict[str, float]:
    """CPU milliseconds of an import, without those of the interpreter."""
    names = {"none": "pass", **{each: f"import {each}" for each in clients if each != "openssh"}}
    samples: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(rounds * 3):
        for name, line in names.items():
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([sys.executable, "-c", line], check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            samples[name].append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    medians = {name: statistics.median(found) * 1000 for name, found in samples.items()}
    return {name: round(value - medians["none"], 1) for name, value in medians.items() if name != "none"}


def _ratio(values: dict[str, Any], client: str) -> str:
    """To paramiko, where both are numbers."""
    own, other = values.get("paramiko"), values.get(client)
    if client == "paramiko" or not isinstance(own, float) or not isinstance(other, float) or not own:
        return ""
    return f" ({other / own:.1f}x)"


def _print(found: dict[str, Any], clients: list[str], hosts: int) -> None:
    def row(what: str, values: dict[str, Any]) -> None:
        print(
            f"{what:72}",
            *(f"{values.get(client, '-')!s:>12}{_ratio(values, client):8}" for client in clients),
        )

    row("", {client: client for client in clients})
    row("ms CPU of the import", found["import"])
    for do, unit in UNITS.items():
        for kind in ("cpu", "wall"):
            row(f"{unit} ({kind})", {client: values[kind] for client, values in found[do].items()})
    for name in ("memory", "processes", "threads", "descriptors", "idle"):
        unit = {"memory": "MiB of memory", "idle": "ms CPU per second when idle"}.get(name, name)
        row(f"{hosts} more connections: {unit}", {c: round(v[name], 1) for c, v in found["fleet"].items()})
    row(f"s until silence is noticed (asked after {KEEP_ALIVE} s)", found["silence"])
    row("a command that SIGKILL ended", found["signals"])


def main() -> int:
    parser = parser_of("ssh", __doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--hosts", type=int, default=50, help="connections that are held at a time")
    chosen = parser.parse_args()
    if lacks := why_not():
        raise SystemExit(f"no SSH server here: {lacks}")
    clients = list(CLIENTS)
    if importlib.util.find_spec("asyncssh") is None:
        clients.remove("asyncssh")
        print("asyncssh is not installed, and left out: pip install asyncssh", file=sys.stderr)
    found = measure(clients, chosen.rounds, chosen.hosts)
    _print(found, clients, chosen.hosts)
    keep({"version": "bai.benchmark.ssh/v1", "rounds": chosen.rounds, **found}, chosen.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
