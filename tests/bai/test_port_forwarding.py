"""Local ports joined to others: many at a time, half closed, cut, refused."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from bai.cli.sessions.port_arguments import port_mappings
from bai.cli.sessions.port_forwarding import Forwarder, PortMapping
from providers.machines.base import Stream
from schemas.problems.errors.command import CommandError
from schemas.problems.errors.kernel import PortRefused
from tests.harness.ports import free_port


def read_all(stream: socket.socket) -> bytes:
    parts = []
    while data := stream.recv(65536):
        parts.append(data)
    return b"".join(parts)


@pytest.fixture
def echo() -> Iterator[int]:
    """A server that answers only once it has heard everything: half-closed connections must work."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    stream = server.accept()[0]
                    threading.Thread(target=answer, args=(stream,), daemon=True).start()

        def answer(stream: socket.socket) -> None:
            with stream, contextlib.suppress(OSError):
                stream.sendall(read_all(stream)[::-1])

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


def dial(port: int) -> Stream:
    return socket.create_connection(("127.0.0.1", port), timeout=60)


def connect(forwarder: Forwarder) -> socket.socket:
    return socket.create_connection((forwarder.address, forwarder.local), timeout=60)


def test_many_connections_at_a_time(echo: int) -> None:
    said: list[str] = []
    with Forwarder("127.0.0.1", PortMapping(0, echo), lambda: dial(echo), said.append) as forwarder:

        def one(number: int) -> bool:
            text = f"{number}:".encode() * 20_000
            with connect(forwarder) as stream:
                stream.sendall(text)
                stream.shutdown(socket.SHUT_WR)
                return read_all(stream) == text[::-1]

        with ThreadPoolExecutor(40) as pool:
            assert all(pool.map(one, range(120)))
    assert said == []


def test_the_end_cuts_what_is_open(echo: int) -> None:
    mapping = PortMapping(free_port(), echo)  # Nobody else listens there afterwards.
    with Forwarder("127.0.0.1", mapping, lambda: dial(echo), print) as forwarder:
        stream = connect(forwarder)
        stream.sendall(b"hello")
    with contextlib.suppress(ConnectionError):
        assert read_all(stream) in (b"", b"olleh")
    with pytest.raises(OSError):
        connect(forwarder)


def test_a_refused_connection_is_told_and_the_next_works(echo: int) -> None:
    said: list[str] = []
    answers = [PortRefused(provider="x", kernel="k", port=1, why="nothing listens on it"), None]

    def dialled() -> Stream:
        if error := answers.pop(0):
            raise error
        return dial(echo)

    with Forwarder("127.0.0.1", PortMapping(0, echo), dialled, said.append) as forwarder:
        with connect(forwarder) as stream, contextlib.suppress(ConnectionError):
            assert read_all(stream) == b""
        with connect(forwarder) as stream:
            stream.sendall(b"ab")
            stream.shutdown(socket.SHUT_WR)
            assert read_all(stream) == b"ba"
    assert said == ["Port 1 of kernel k cannot be reached: nothing listens on it"]


def test_a_port_that_is_taken_is_said(echo: int) -> None:
    with pytest.raises(CommandError, match="address already in use"):
        Forwarder("127.0.0.1", PortMapping(echo, 1), lambda: dial(echo), print)
    with pytest.raises(CommandError, match="no address"):
        Forwarder("nowhere.invalid", PortMapping(0, 1), lambda: dial(echo), print)


def test_what_is_forwarded() -> None:
    named = {"web": 80, "ssh": 22}
    assert port_mappings([], named) == [PortMapping(80, 80, "web"), PortMapping(22, 22, "ssh")]
    assert port_mappings(["web", "8080:80", "0:web", ":9", "7:7"], named) == [
        PortMapping(80, 80, "web"),
        PortMapping(8080, 80),
        PortMapping(0, 80, "web"),
        PortMapping(0, 9),
        PortMapping(7, 7),
    ]


@pytest.mark.parametrize("text", ["nope", "0", "1:0", "65536", "x:80", "-1", "1:2:3", "", "²"])
def test_what_is_no_port_is_said(text: str) -> None:
    with pytest.raises(CommandError, match="is not a port"):
        port_mappings([text], {"web": 80})
    with pytest.raises(CommandError, match="names no ports"):
        port_mappings([], {})
