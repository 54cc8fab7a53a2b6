"""Ways to kernels' ports: made when asked for, gone when unused, refused where there are too many."""

from __future__ import annotations

import contextlib
import shutil
import socket
import struct
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from bai.web.apps.proxy import tunnels as module
from bai.web.apps.proxy.tunnels import Tunnels
from providers.machines.base import Stream
from schemas.problems.errors.kernel import NotRunning
from tests.waiting import until


class Far:
    """A port whose side of each connection is kept."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []
        self.ends: list[socket.socket] = []
        self.refuse = False

    def dial(self, kernel_id: str, port: int) -> Stream:
        self.asked.append((kernel_id, port))
        if self.refuse:
            raise NotRunning(provider="fake", kernel=kernel_id)
        near, far = socket.socketpair()
        far.settimeout(60)
        self.ends.append(far)
        return near


@pytest.fixture
def far() -> Far:
    return Far()


@pytest.fixture
def clock() -> list[float]:
    return [0.0]


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def tunnels(far: Far, clock: list[float], said: list[str]) -> Iterator[Tunnels]:
    folder = Path(tempfile.mkdtemp(prefix="bai-tunnels-"))
    made = Tunnels(folder, far.dial, said.append, unused=100, clock=lambda: clock[0])
    yield made
    made.close()
    assert list(folder.iterdir()) == []
    shutil.rmtree(folder)


def reached(address: str) -> socket.socket:
    network, _, path = address.partition("/")
    assert network == "unix"
    stream = socket.socket(socket.AF_UNIX)
    stream.settimeout(60)
    stream.connect(path)
    return stream


def test_one_way_for_each_port(tunnels: Tunnels, far: Far) -> None:
    first = tunnels.address("k" * 300, 80)
    assert first == tunnels.address("k" * 300, 80) and tunnels.count == 1
    assert len({first, tunnels.address("k" * 300, 81), tunnels.address("other", 80)}) == 3
    with reached(first) as near:
        near.sendall(b"hello")
        until(lambda: bool(far.ends), "it is dialled")
        assert far.ends[0].recv(100) == b"hello" and far.asked == [("k" * 300, 80)]


def test_half_closed_either_way(tunnels: Tunnels, far: Far) -> None:
    for forth in (True, False):
        with reached(tunnels.address("a", 1)) as near:
            near.sendall(b"x")
            until(lambda: bool(far.ends), "it is dialled")
            end = far.ends.pop()
            assert end.recv(1) == b"x"
            one, other = (near, end) if forth else (end, near)
            one.sendall(b"last words")
            one.shutdown(socket.SHUT_WR)
            heard = b""
            while part := other.recv(100):
                heard += part
            assert heard == b"last words"
            other.sendall(b"answer")
            other.close()
            assert one.recv(100) == b"answer" and one.recv(100) == b""
            end.close()


def test_who_takes_nothing_is_sent_no_more(tunnels: Tunnels, far: Far) -> None:
    """What is under way is bounded."""
    with reached(tunnels.address("a", 1)) as near:
        near.setblocking(False)
        sent = 0

        def full() -> bool:
            nonlocal sent
            try:
                while sent < 1 << 30:
                    sent += near.send(bytes(1 << 16))
            except BlockingIOError:
                return True
            return False

        until(full, "it is full")
        until(lambda: bool(far.ends), "it is dialled")
        before = -1
        while before != sent:
            before = sent
            assert full()
        assert sent < 16 << 20
        near.setblocking(True)
        near.shutdown(socket.SHUT_WR)
        heard = 0
        while part := far.ends[0].recv(1 << 20):
            heard += len(part)
        assert heard == sent


def test_a_broken_side_breaks_the_other(tunnels: Tunnels, far: Far) -> None:
    with reached(tunnels.address("a", 1)) as near:
        near.sendall(b"x")
        until(lambda: bool(far.ends), "it is dialled")
        far.ends[0].close()
        with contextlib.suppress(ConnectionError):
            assert near.recv(1) == b""


def test_unused_ways_go_and_used_ones_stay(tunnels: Tunnels, far: Far, clock: list[float]) -> None:
    unused = tunnels.address("unused", 1)
    with reached(tunnels.address("used", 1)) as near:
        near.sendall(b"x")
        until(lambda: bool(far.ends), "it is dialled")
        clock[0] = 101
        tunnels.address("third", 1)
        assert tunnels.count == 2
        with pytest.raises(OSError):
            reached(unused)
        near.sendall(b"y")
        until(lambda: far.ends[0].recv(2) in (b"y", b"xy"), "it goes on")
    assert tunnels.address("unused", 1) == unused
    with reached(unused):
        pass


def test_why_a_way_leads_nowhere(tunnels: Tunnels, far: Far, said: list[str]) -> None:
    far.refuse = True
    assert tunnels.failure("a", 1) == ""
    for _ in range(3):
        with reached(tunnels.address("a", 1)) as near:
            assert near.recv(1) == b""
    assert tunnels.failure("a", 1) == NotRunning(provider="fake", kernel="a").message
    assert said == [f"port 1 of a is not reached: {tunnels.failure('a', 1)}"]


def test_one_app_cannot_take_all_connections(
    tunnels: Tunnels, far: Far, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_EACH", 3)
    greedy = [reached(tunnels.address("greedy", 1)) for _ in range(3)]
    until(lambda: len(far.ends) == 3, "they are dialled")
    with reached(tunnels.address("greedy", 1)) as refused:
        assert refused.recv(1) == b""
    assert tunnels.failure("greedy", 1) == "there are too many connections"
    with reached(tunnels.address("other", 1)) as near:
        near.sendall(b"x")
        until(lambda: len(far.ends) == 4, "another app's is dialled")
        assert far.ends[3].recv(1) == b"x"
    for each in greedy:
        each.close()


def test_who_does_not_answer_holds_up_no_other(tunnels: Tunnels, far: Far) -> None:
    hanging = threading.Event()
    dial = far.dial

    def slow(kernel_id: str, port: int) -> Stream:
        if kernel_id == "slow":
            hanging.wait(60)
        return dial(kernel_id, port)

    tunnels._dial = slow
    waiting = [reached(tunnels.address("slow", 1)) for _ in range(100)]
    try:
        with reached(tunnels.address("quick", 1)) as near:
            near.sendall(b"x")
            until(lambda: bool(far.ends), "it is dialled")
            assert far.ends[0].recv(1) == b"x"
    finally:
        hanging.set()
        for each in waiting:
            each.close()


def test_many_at_rest_take_no_threads(tunnels: Tunnels, far: Far) -> None:
    before = threading.active_count()
    open_ones = [reached(tunnels.address(f"k{number % 5}", 1)) for number in range(500)]
    until(lambda: len(far.ends) == 500, "all are dialled")
    until(lambda: threading.active_count() <= before, "nobody dials any more")
    for number, each in enumerate(open_ones):
        each.sendall(str(number).encode())
    heard = sorted(int(end.recv(100)) for end in far.ends)
    assert heard == list(range(500))
    for each in open_ones:
        each.close()


class Channel:
    """A stream that is no socket, as one in SSH."""

    def __init__(self, inner: socket.socket) -> None:
        self._inner = inner
        self.recv, self.sendall, self.shutdown = inner.recv, inner.sendall, inner.shutdown
        self.settimeout, self.fileno, self.close = inner.settimeout, inner.fileno, inner.close


def test_streams_that_are_no_sockets(tunnels: Tunnels, far: Far) -> None:
    dial = far.dial

    def channel(kernel_id: str, port: int) -> Stream:
        made = dial(kernel_id, port)
        assert isinstance(made, socket.socket)
        return Channel(made)

    tunnels._dial = channel
    with reached(tunnels.address("a", 1)) as near:
        near.sendall(b"hello")
        near.shutdown(socket.SHUT_WR)
        until(lambda: bool(far.ends), "it is dialled")
        end = far.ends[0]
        assert end.recv(100) == b"hello" and end.recv(100) == b""
        end.sendall(b"answer")
        end.close()
        assert near.recv(100) == b"answer" and near.recv(100) == b""


def test_the_end_cuts_what_is_open(far: Far) -> None:
    for dial in (far.dial, lambda kernel_id, port: Channel(cast(socket.socket, far.dial(kernel_id, port)))):
        far.ends.clear()
        with tempfile.TemporaryDirectory(prefix="bai-tunnels-") as folder:
            made = Tunnels(Path(folder), dial, print)
            with reached(made.address("a", 1)) as near:
                near.sendall(b"x")
                until(lambda: bool(far.ends), "it is dialled")
                assert far.ends[0].recv(1) == b"x"
                made.close()
                with contextlib.suppress(ConnectionError):
                    assert near.recv(1) == b""


def test_threads_that_dial_are_used_again(
    tunnels: Tunnels, far: Far, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service has a connection for each request. Those that tests before have left may be used, too."""
    before, threads, dial = set(threading.enumerate()), set(), far.dial

    def noted(kernel_id: str, port: int) -> Stream:
        threads.add(threading.current_thread())
        return dial(kernel_id, port)

    monkeypatch.setattr(tunnels, "_dial", noted)
    address = tunnels.address("a", 1)
    for number in range(50):
        with reached(address):
            until(lambda number=number: len(far.ends) > number, "it is dialled")  # type: ignore[misc]
    assert len(threads - before) <= 3


def test_who_broke_off_right_after_it_was_dialled_leaves_nobody_waiting(
    tunnels: Tunnels, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that is killed at that moment."""

    def dial(kernel_id: str, port: int) -> Stream:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            stream = socket.create_connection(listener.getsockname())
            accepted, _ = listener.accept()
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            accepted.close()
        return stream

    monkeypatch.setattr(tunnels, "_dial", dial)
    over = contextlib.suppress(ConnectionResetError, BrokenPipeError)
    with reached(tunnels.address("a", 1)) as near, over:
        near.sendall(b"hello")
        assert near.recv(1) == b""
