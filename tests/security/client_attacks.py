"""What a hostile client of `bai serve` does: connections as they should not be, on 127.0.0.0/8 alone."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import select
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from tests.bai.conftest import Repo
from tests.waiting import until

PATIENCE = 120.0
FILES = 4096


@dataclass
class Server:
    """A process of `bai serve`, and what it wrote."""

    process: subprocess.Popen[str]
    log: Path
    port: int = 0
    token: str = ""

    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def memory(self) -> int:
        """Bytes that it has resident."""
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * os.sysconf(
            "SC_PAGE_SIZE"
        )

    def connections(self) -> int:
        """How many it has open."""
        return len([each for each in Path(f"/proc/{self.process.pid}/fd").iterdir() if _is_socket(each)])

    def connect(self, source: str = "127.0.0.1") -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), PATIENCE, source_address=(source, 0))

    def bearer(self) -> str:
        return f"Authorization: Bearer {self.token}\r\n"

    def ask(
        self, path: str, source: str = "127.0.0.1", more: str = "", method: str = "GET"
    ) -> tuple[int, str]:
        """Status and answer of one request on a connection of its own."""
        with self.connect(source) as connection:
            head = f"{method} {path} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n{more}\r\n"
            connection.sendall(head.encode())
            return split(everything(connection))

    def api(self, source: str = "127.0.0.1") -> tuple[int, str]:
        return self.ask("/api/v1/clusters", source, self.bearer())


@contextlib.contextmanager
def serving(repo: Repo, *options: str, access: str = "") -> Iterator[Server]:
    """A server of a repository, whose token is an admin's; `access`: more of the access file."""
    made = repo.ok("token", "ada", "--role", "admin", "--format", "json").json
    file = repo.write(".access.yaml", f"tokens: [{made['line']}]\n{access}")
    log = repo.root.parent / "serve.log"
    with log.open("w") as out:
        process = repo.start(
            "serve", "--listen", "127.0.0.1:0", "--access", str(file), "--interval", "1s", *options,
            stdout=out, stderr=out,
        )  # fmt: skip
    server = Server(process, log, token=made["token"])
    try:
        found = until(lambda: re.search(r"http://127.0.0.1:(\d+)", server.said()), "it says where it answers")
        server.port = int(found[1])
        until(lambda: server.ask("/readyz")[0] == 200, "it is ready")
        yield server
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0, server.said()
    finally:
        process.kill()
        process.wait()
        file.unlink()


def _is_socket(path: Path) -> bool:
    try:
        return os.readlink(path).startswith("socket:")
    except OSError:
        return False


def everything(connection: socket.socket) -> bytes:
    """What comes until the other side ends it; a reset ends it, too."""
    found = b""
    with contextlib.suppress(ConnectionError):
        while part := connection.recv(65536):
            found += part
    return found


def split(answer: bytes) -> tuple[int, str]:
    """Status and body of the first answer; 0 for none."""
    head, _, body = answer.decode(errors="replace").partition("\r\n\r\n")
    words = head.split()
    return (int(words[1]), body) if len(words) > 1 else (0, "")


@contextlib.contextmanager
def flood(server: Server, count: int, sources: int, said: bytes, *, answered: bool = False) -> Iterator[None]:
    """So many connections from so many addresses, which say so much and stay. `answered`: wait for an answer
    on each first."""
    held: list[socket.socket] = []
    try:
        for number in range(count):
            with contextlib.suppress(ConnectionError):
                connection = server.connect(f"127.0.{2 + number % sources}.1" if sources > 1 else "127.0.0.1")
                held.append(connection)
                connection.sendall(said)
                if answered:
                    connection.recv(65536)
        yield
    finally:
        for connection in held:
            connection.close()


def drip(server: Server, begin: bytes, piece: bytes, most: int, pause: float) -> tuple[int, str, int]:
    """Say one thing at once, then a piece after each pause. What was answered when the server had enough, and
    how many pieces it took until then; after `most` of them nobody ended it."""
    with server.connect() as connection:
        connection.sendall(begin)
        for number in range(most):
            if select.select([connection], [], [], pause)[0]:
                return (*split(everything(connection)), number)
            with contextlib.suppress(ConnectionError):
                connection.sendall(piece)
        return 0, "", most


def pour(server: Server, begin: bytes, piece: bytes, most: int) -> int:
    """The same as fast as it is taken; how many bytes were, at most about `most`."""
    sent = len(begin)
    with server.connect() as connection, contextlib.suppress(ConnectionError):
        connection.sendall(begin)
        while sent < most and not select.select([connection], [], [], 0)[0]:
            connection.sendall(piece)
            sent += len(piece)
    return sent


@dataclass
class Stream:
    """An answer that goes on."""

    connection: socket.socket
    file: IO[bytes] = field(init=False)

    def __post_init__(self) -> None:
        self.file = self.connection.makefile("rb")

    def until(self, words: bytes) -> bytes:
        """Its next line with these words. Raises AssertionError when it ends before."""
        for line in self.file:
            if words in line:
                return line
        raise AssertionError(f"it ended before {words!r}")

    def close(self) -> None:
        self.file.close()
        self.connection.close()


def follow(server: Server, path: str, source: str = "127.0.0.1") -> Stream:
    connection = server.connect(source)
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: here\r\n{server.bearer()}\r\n".encode())
    return Stream(connection)


@contextlib.contextmanager
def many_files() -> Iterator[None]:
    """This process may hold as many connections as the attack needs."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(before[0], min(FILES, before[1])), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def growth(server: Server, attack: Callable[[], object]) -> int:
    """Bytes by which the server grew at the most while it was attacked."""
    before = server.memory()
    Path(f"/proc/{server.process.pid}/clear_refs").write_text("5")  # proc(5): its peak begins anew
    attack()
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(re.findall(r"VmHWM:\s+(\d+)", status)[0]) * 1024 - before
