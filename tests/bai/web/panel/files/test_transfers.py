"""Files on their way: what breaks off leaves nothing, and gives its place back."""

from __future__ import annotations

import asyncio
import http.client
import os
import queue
import socket
import tarfile
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import h11
import pytest

from bai.web.connection_limits import UPLOAD_STEP, ConnectionLimits
from bai.web.http_protocol import BoundedProtocol, ServerConfig
from bai.web.panel.files.transfers import BrokenOff, Download, TooManyTransfers, Transfers
from tests.bai.web.lab import Lab, serving
from tests.bai.web.panel.files.folders import FilesClient, FolderFiles
from tests.bai.web.panel.rendering import two_projects
from tests.waiting import until

UPLOAD = "/clusters/here/sessions/p/own/files?path=up&name=new"


@pytest.fixture
def files(tmp_path: Path, lab: Lab) -> FolderFiles:
    root = tmp_path / "files"
    (root / "up").mkdir(parents=True)
    (root / "plain").write_bytes(b"x" * 1000)
    lab.workspace.provider = made = FolderFiles(lab.world, root)
    two_projects(lab)
    return made


def count(lab: Lab) -> int:
    found: int = lab.app.state.transfers.count
    return found


def headers_of(client: FilesClient, address: str) -> dict[str, str]:
    cookie = client.browser.cookies.get("bai", "")
    return {
        "Host": urlsplit(address).netloc, "Cookie": f"bai={cookie}", "Sec-Fetch-Site": "same-origin",
        "Bai-Form-Token": client.token,
    }  # fmt: skip


def begun(client: FilesClient, address: str, request: str, **more: str) -> socket.socket:
    """A connection on which so much of a request was sent."""
    made = socket.create_connection((urlsplit(address).hostname, urlsplit(address).port), timeout=120)
    lines = [f"{name}: {text}" for name, text in {**headers_of(client, address), **more}.items()]
    made.sendall("\r\n".join((f"{request} HTTP/1.1", *lines, "", "")).encode())
    return made


def last_cause(lab: Lab) -> str:
    return next((each.cause for each in lab.workspace.store.audit("here", limit=1)), "")


def test_a_file_that_breaks_off_leaves_nothing_and_gives_its_place_back(lab: Lab, files: FolderFiles) -> None:
    client = FilesClient(lab, "operator")
    (files.root / "up" / "new").write_bytes(b"old")
    with serving(lab.app) as address:
        with begun(client, address, f"POST {UPLOAD}", **{"Content-Length": "1000000"}) as connection:
            connection.sendall(b"x" * 300_000)
            until(lambda: len(list((files.root / "up").iterdir())) == 2, "it has begun beside the old one")
            assert count(lab) == 1
        until(lambda: count(lab) == 0, "its place is free")
    assert [each.name for each in (files.root / "up").iterdir()] == ["new"]
    assert (files.root / "up" / "new").read_bytes() == b"old"
    assert last_cause(lab).startswith("up/new, ") and last_cause(lab).endswith(", broken off")


def test_who_stops_fetching_gives_the_place_back(lab: Lab, files: FolderFiles) -> None:
    client, ended = FilesClient(lab, "operator"), threading.Event()

    def endless() -> Iterator[bytes]:
        head = tarfile.TarInfo("plain")
        head.size = 1 << 40
        try:
            yield head.tobuf()
            while True:
                yield b"x" * 65536
        finally:
            ended.set()

    files.pieces = endless()
    with serving(lab.app) as address:
        where = "GET /clusters/here/sessions/p/own/files/content?path=plain"
        with begun(client, address, where) as connection:
            assert connection.recv(100).startswith(b"HTTP/1.1 200")
            assert count(lab) == 1
        until(lambda: count(lab) == 0, "its place is free")
    files.pieces = None
    assert ended.is_set() and last_cause(lab).endswith(", broken off")


def test_what_ends_before_its_time_is_not_taken_for_whole(lab: Lab, files: FolderFiles) -> None:
    client = FilesClient(lab, "operator")
    head = tarfile.TarInfo("plain")
    head.size = 1_000_000

    def broken() -> Iterator[bytes]:
        yield head.tobuf() + b"x" * 1000
        raise OSError("the node is gone")

    with serving(lab.app) as address:
        for action in ("content", "archive"):
            files.pieces = broken()
            asked = http.client.HTTPConnection(urlsplit(address).netloc, timeout=120)
            asked.request(
                "GET", f"/clusters/here/sessions/p/own/files/{action}?path=plain",
                headers=headers_of(client, address),
            )  # fmt: skip
            with pytest.raises((http.client.IncompleteRead, ConnectionError)):
                asked.getresponse().read()
            asked.close()
        until(lambda: count(lab) == 0, "their places are free")


def test_there_are_only_so_many_at_once(lab: Lab, files: FolderFiles) -> None:
    lab.app.state.transfers = Transfers(most=2, most_each=1)
    client, other = FilesClient(lab, "operator"), FilesClient(lab, "admin")
    with serving(lab.app) as address:
        with begun(client, address, f"POST {UPLOAD}", **{"Content-Length": "1000"}):
            until(lambda: count(lab) == 1, "one is on its way")
            for answer in (client.get(), client.get("content", "path=plain"), client.send("name=more")):
                assert answer.status_code == 503 and "on their way already" in answer.text
                assert answer.headers["Retry-After"] == "10"
            assert other.get("content", "path=plain").status_code == 200
        until(lambda: count(lab) == 0, "its place is free")
    assert client.get().status_code == 200


# The hand between threads and connections


class Loud(Exception):
    """What goes wrong at a file."""


def test_what_nobody_hears_of_gives_its_place_back() -> None:
    transfers, stuck = Transfers(most_each=1), threading.Event()

    async def leave() -> None:
        asked = asyncio.create_task(transfers.ask("ann", stuck.wait))
        await asyncio.sleep(0)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        with pytest.raises(TooManyTransfers):
            await transfers.ask("ann", lambda: 1)

    asyncio.run(leave())
    assert transfers.count == 1, "its thread is still at it"
    stuck.set()
    until(lambda: transfers.count == 0, "its place is free")


def test_pieces_that_are_never_taken_are_let_go() -> None:
    transfers, closed = Transfers(), threading.Event()

    def many() -> Iterator[bytes]:
        try:
            while True:
                yield b"x"
        finally:
            closed.set()

    async def forget() -> None:
        size, pieces = await transfers.download("ann", lambda: Download(many(), 5))
        assert size == 5
        del pieces

    asyncio.run(forget())
    until(lambda: closed.is_set() and transfers.count == 0, "its thread has ended")


def test_what_goes_wrong_is_told_on_either_side() -> None:
    transfers, heard = Transfers(), queue.SimpleQueue[BaseException]()

    async def chunks(number: int, end: Exception | None = None) -> AsyncIterator[bytes]:
        for _ in range(number):
            yield b"x" * 100
        if end is not None:
            raise end

    def refuse(data: Iterator[bytes]) -> None:
        next(data)
        raise Loud

    def listen(data: Iterator[bytes]) -> None:
        try:
            list(data)
        except BrokenOff as error:
            heard.put(error)
            raise

    async def run() -> None:
        with pytest.raises(Loud):
            await transfers.upload("ann", chunks(1000), refuse)
        with pytest.raises(Loud):
            await transfers.upload("ann", chunks(3, Loud()), listen)
        with pytest.raises(Loud):
            await transfers.download("ann", lambda: (_ for _ in ()).throw(Loud()))

    asyncio.run(run())
    assert isinstance(heard.get(timeout=120), BrokenOff)
    until(lambda: transfers.count == 0, "all places are free")


def test_a_slow_reader_holds_a_sender_back() -> None:
    transfers, go, sent = Transfers(), threading.Event(), 0

    async def chunks() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(100):
            sent += 1
            yield b"x"
            await asyncio.sleep(0)

    def write(data: Iterator[bytes]) -> None:
        next(data)
        go.wait(120)
        list(data)

    async def run() -> None:
        task = asyncio.create_task(transfers.upload("ann", chunks(), write))
        for _ in range(1000):
            await asyncio.sleep(0)
        assert sent < 20
        go.set()
        await task
        assert sent == 100

    asyncio.run(run())


# Time for a body


class Clock:
    """Timers that nobody waits for."""

    def __init__(self) -> None:
        self.set: list[float] = []

    def call_later(self, seconds: float, call: Any) -> Any:
        self.set.append(seconds)
        return SimpleNamespace(cancel=lambda: None)


@pytest.mark.parametrize(
    ("line", "complete", "deadlines"),
    [
        ("POST /clusters/here/sessions/p/own/files?path=a", False, 4),
        ("POST /clusters/here/sessions/p/own/files?path=a", True, 1),
        ("POST /clusters/here/sessions/p/own/files/content", False, 1),
        ("PUT /clusters/here/sessions/p/own/files", False, 1),
        ("POST /api/v1/clusters/here/suspend", False, 1),
    ],
)
def test_a_file_has_time_for_each_part_of_it_and_nothing_else_has(
    line: str, complete: bool, deadlines: int
) -> None:
    method, target = line.split()
    made = BoundedProtocol.__new__(BoundedProtocol)
    config = ServerConfig(SimpleNamespace(), ConnectionLimits(body=7.0))  # type: ignore[arg-type]
    made.conn = SimpleNamespace(their_state=h11.SEND_BODY, body_size=0)  # type: ignore[assignment]
    made.transport = SimpleNamespace(is_closing=lambda: False)  # type: ignore[assignment]
    made.loop = clock = Clock()  # type: ignore[assignment]
    made._connections, made._limits, made._stalled = config.connections, config.connections.limits, False
    made._stage, made._timer, made._socket = ("", None), None, None
    scope = {"method": method, "path": target.partition("?")[0]}
    made.cycle = SimpleNamespace(response_complete=complete, scope=scope)  # type: ignore[assignment]
    for size in range(0, 4 * UPLOAD_STEP, UPLOAD_STEP // 4):
        made.conn.body_size = size  # type: ignore[attr-defined]
        made._update_stage()
    assert clock.set == [7.0] * deadlines


def test_a_name_beside_which_a_file_comes_is_not_another_ones(files: FolderFiles, lab: Lab) -> None:
    """Two who send the same at once: each comes whole, the last one stays."""
    one, other = FilesClient(lab, "operator"), FilesClient(lab, "admin")
    threads = [
        threading.Thread(target=client.send, args=("path=up&name=same", letter * 200_000))
        for client, letter in ((one, b"a"), (other, b"b"))
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert os.listdir(files.root / "up") == ["same"]
    assert (files.root / "up" / "same").read_bytes() in (b"a" * 200_000, b"b" * 200_000)
