"""What answers for the engine of a node that somebody else has taken over."""

from __future__ import annotations

import contextlib
import io
import json
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from providers.base import Labels
from providers.docker.engine.engine import Engine
from providers.docker.labels import to_engine_labels
from providers.machines.base import Machine
from schemas.kinds.parts.docker import Docker

Answer = bytes | Callable[[socket.socket], None]
"""What is sent: whole, or by whoever has the connection."""


def whole(value: object, status: str = "200 OK") -> bytes:
    """An answer with a JSON body, or with text that is sent as it is."""
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    kind = "Content-Type: application/json\r\n"
    return f"HTTP/1.1 {status}\r\n{kind}Content-Length: {len(body)}\r\n\r\n".encode() + body


def truth(kernel: str, labels: Labels, *, container: str = "c" * 64) -> dict[str, Any]:
    """Route → what an engine with one running kernel answers."""
    said = to_engine_labels(kernel, labels)
    return {
        "version": {"ApiVersion": "1.47", "MinAPIVersion": "1.24", "Version": "27.0"},
        "info": {
            "ID": "engine", "NCPU": 8, "MemTotal": 2**34, "CgroupVersion": "2", "ServerVersion": "27.0",
            "Driver": "overlay2", "DriverStatus": [["Backing Filesystem", "xfs"]], "CPUSet": True,
            "SecurityOptions": ["name=seccomp,profile=default"], "Runtimes": {"runc": {"path": "runc"}},
            "DockerRootDir": "/var/lib/docker", "DiscoveredDevices": [{"ID": "a", "Source": "cdi"}],
            "Swarm": {
                "NodeID": "a", "LocalNodeState": "active", "ControlAvailable": True, "Cluster": {"ID": "one"},
                "RemoteManagers": [{"NodeID": "a"}],
            },
            "CDISpecDirs": ["/etc/cdi"], "SystemTime": "2026-01-01T00:00:00Z",
        },
        "list": [
            {"Id": container, "Names": [f"/{kernel}"], "State": "running", "Image": "x", "ImageID": "i",
             "Labels": said, "Mounts": []},
        ],
        "inspect": {
            "Id": container,
            "Name": f"/{kernel}",
            "Created": "2026-01-01T00:00:00.123456789Z",
            "RestartCount": 0,
            "Image": "i",
            "State": {
                "Status": "running", "ExitCode": 0, "Pid": 42, "Error": "", "OOMKilled": False,
                "StartedAt": "2026-01-01T00:00:01Z", "FinishedAt": "0001-01-01T00:00:00Z",
            },
            "Config": {"Image": "x", "Labels": said, "Tty": False},
            "HostConfig": {"CpusetCpus": "0-1", "CpusetMems": "0", "Memory": 2**30, "PidsLimit": 100},
        },
        "volumes": {
            "Volumes": [{"Name": "v", "CreatedAt": "2026-01-01T00:00:00Z", "Labels": {"bai.note": kernel}}],
        },
        "stats": {
            "read": "2026-01-01T00:00:02Z",
            "cpu_stats": {"cpu_usage": {"total_usage": 10**9}},
            "memory_stats": {"usage": 2**20, "limit": 2**30, "stats": {"inactive_file": 1}},
            "networks": {"eth0": {"rx_bytes": 1, "tx_bytes": 2}},
            "pids_stats": {"current": 3},
        },
        "images": [{"RepoTags": ["x:1"], "RepoDigests": [], "Size": 5}],
        "image": {"Id": "i", "RepoTags": ["x"]},
    }  # fmt: skip


def route(path: str) -> str:
    """Which of the answers a request asks for."""
    for part, name in (
        ("/version", "version"),
        ("/info", "info"),
        ("/containers/json", "list"),
        ("/volumes", "volumes"),
        ("/images/json", "images"),
        ("/images/", "image"),
        ("/stats", "stats"),
    ):
        if part in path:
            return name
    return "inspect"


class HostileEngine:
    """Answers each request, by the name of its route, with what it was given."""

    def __init__(self, answers: Mapping[str, Answer]) -> None:
        self.answers = answers
        self.sent = 0
        """Bytes of endless answers."""

    def dial(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        threading.Thread(target=self._serve, args=(theirs,), daemon=True).start()
        return ours

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as asked, contextlib.suppress(OSError):
            for path in _requests(asked):
                answer = self.answers.get(route(path), b"")
                if callable(answer):
                    return answer(connection)
                connection.sendall(answer or whole({"message": "no such thing"}, "404 Not Found"))

    def endless(self, head: bytes, pieces: Iterable[bytes], pause: float = 0) -> Answer:
        """`head`, and then `pieces`, with so many seconds after each."""

        def send(connection: socket.socket) -> None:
            connection.sendall(head)
            for piece in pieces:
                connection.sendall(piece)
                self.sent += len(piece)
                time.sleep(pause)

        return send

    def engine(self, node: str, machine: Callable[[], Machine]) -> Engine:
        return Engine(node, Docker(), self.dial, machine)


def _requests(asked: io.BufferedReader) -> Iterator[str]:
    while line := asked.readline():
        path = line.split()[1].decode()
        length = 0
        while (header := asked.readline()) not in (b"\r\n", b""):
            if header.lower().startswith(b"content-length:"):
                length = int(header.split(b":")[1])
        asked.read(length)
        yield path
