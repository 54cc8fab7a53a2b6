"""Somebody who reaches `bai serve` and has no token: keeps no other client out, takes no memory, and gets no
traceback. Each attack goes against a real process that looks after a real session."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bai.web.request_limits import LARGEST_WEBHOOK
from tests.bai.conftest import new_repo, tidy
from tests.security.client_attacks import (
    PATIENCE,
    Server,
    drip,
    everything,
    flood,
    follow,
    growth,
    many_files,
    pour,
    serving,
    split,
)  # fmt: skip
from tests.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("clients")]

SECRET = "a shared secret"
MIB = 2**20
TIMES = ("--header-timeout", "4s", "--body-timeout", "5s", "--idle-timeout", "12s")
LOGS = "/api/v1/clusters/here/logs/demo/talks?follow=true"
NEWS = "/api/v1/clusters/here/stream"
GET = b"GET /healthz HTTP/1.1\r\nHost: here\r\n"
POST = b"POST /api/v1/clusters/here/suspend HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
HOOK = "POST /hooks/git HTTP/1.1\r\nHost: here\r\nX-GitHub-Event: push\r\n"
FORGED = f"X-Hub-Signature-256: sha256={'0' * 64}\r\n"


@pytest.fixture(scope="module", autouse=True)
def files() -> Iterator[None]:
    with many_files():
        yield


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One with short times, whose session says a word and, later than any of them, another one."""
    repo = new_repo(tmp_path_factory.mktemp("server"))
    repo.env["HOOK_SECRET"] = SECRET
    repo.session("talks", "sh", "-c", "while :; do echo one; sleep 8; echo two; sleep 1; done")
    options = ("--webhook-secret", "env:HOOK_SECRET", *TIMES)
    try:
        with serving(repo, *options) as made:
            yield made
    finally:
        tidy(repo)


@pytest.fixture
def small(server: Server, tmp_path: Path) -> Iterator[Server]:
    """One with room for few."""
    repo = new_repo(tmp_path)
    options = (
        "--max-connections", "8", "--max-connections-per-address", "3", "--trusted-proxy", "127.0.9.0/24",
    )  # fmt: skip
    with serving(repo, *options, *TIMES) as made:
        yield made


# --- connections that stay ------------------------------------------------------------------------------

STAYS = {
    "silent": b"",
    "half a head": GET,
    "half a body": POST + b"Content-Length: 100\r\n\r\n{",
    "half a signed body": f"{HOOK}{FORGED}Content-Length: 1000000\r\n\r\nx".encode(),
    "answered once": GET + b"\r\n",
}


@pytest.mark.parametrize("sources", [1, 9, 200])
@pytest.mark.parametrize("kind", STAYS)
def test_connections_that_stay_keep_nobody_out(server: Server, kind: str, sources: int) -> None:
    with flood(server, 1005, sources, STAYS[kind], answered=kind == "answered once"):
        for source in ("127.0.0.1", "127.0.2.1", "127.0.1.77"):
            assert [server.ask(path, source)[0] for path in ("/healthz", "/readyz")] == [200, 200]
            assert server.ask("/metrics", source, server.bearer())[0] == 200
            assert server.api(source)[0] == 200


def test_streams_begin_and_go_on_in_a_flood(server: Server) -> None:
    """They are silent for longer than a connection may be idle."""
    with flood(server, 1005, 9, b""):
        logs, news = follow(server, LOGS), follow(server, NEWS)
        logs.until(b"one")
        news.until(b"event: pass")
        for _ in range(2):
            with flood(server, 600, 1, b""), flood(server, 600, 9, GET):
                logs.until(b"two")
        news.until(b"event: pass")
        logs.close()
        news.close()


def test_streams_end_with_the_server(tmp_path: Path) -> None:
    """Soon, whole, and without a word about it."""
    repo = new_repo(tmp_path)
    try:
        with serving(repo) as server:
            held = [follow(server, NEWS) for _ in range(5)]
            for stream in held:
                stream.until(b"event: pass")
            server.process.send_signal(signal.SIGTERM)
            for stream in held:
                assert stream.file.read().endswith(b"\r\n0\r\n\r\n")
                stream.close()
            assert server.process.wait(PATIENCE) == 0
            assert "ERROR" not in server.said()
    finally:
        tidy(repo)


def test_an_idle_connection_is_there_until_its_time_is_over(tmp_path: Path) -> None:
    """And that is long: whoever sleeps here may wake up late."""
    repo = new_repo(tmp_path)
    try:
        with serving(repo, *TIMES[:-1], "100s") as server, server.connect() as connection:
            for pause in (0, 6, 6):
                time.sleep(pause)
                connection.sendall(GET + b"\r\n")
                answer = b""
                while not answer.endswith(b"}"):
                    part = connection.recv(65536)
                    assert part, "it was ended"
                    answer += part
    finally:
        tidy(repo)


def test_a_connection_that_says_nothing_ends(server: Server) -> None:
    with server.connect() as silent, server.connect() as answered:
        answered.sendall(GET + b"\r\n")
        assert split(everything(answered))[0] == 200
        assert everything(silent) == b""


# --- slowly ---------------------------------------------------------------------------------------------

PAUSE = 0.5
"""Seconds between two pieces: shorter than any of the times, and all pieces together take much longer."""

SLOW_HEADS = {
    "of the first request": (b"GET /healthz HT", b"T"),
    "after an answer": (GET + b"\r\nGET /healthz HT", b"T"),
    "line by line": (GET, b"A: b\r\n"),
}
SLOW_BODIES = {
    "of known length": (POST + b"Content-Length: 500\r\n\r\n{", b" "),
    "in chunks": (POST + CHUNKED, b"1\r\n \r\n"),
    "of a message that may be signed": (f"{HOOK}{FORGED}Content-Length: 500\r\n\r\n".encode(), b"x"),
    "in an endless chunk's head": (POST + CHUNKED + b"1;", b"x"),
}
UNREAD = {
    "of what was refused": POST.replace(b"suspend", b"nothing") + b"Content-Length: 500\r\n\r\n{",
    "of what needs none": GET + b"Content-Length: 500\r\n\r\n",
    "of a message that is not signed": HOOK.encode() + b"Content-Length: 500\r\n\r\n",
}


@pytest.mark.parametrize("how", SLOW_HEADS)
def test_a_head_ends_in_time_however_it_comes(server: Server, how: str) -> None:
    begin, piece = SLOW_HEADS[how]
    if how == "after an answer":
        with server.connect() as connection:
            connection.sendall(begin)
            connection.settimeout(PATIENCE)
            assert b" 408 " in slowly(connection, piece)
    else:
        status, said, pieces = drip(server, begin, piece, 80, PAUSE)
        assert status == 408 and "in time" in said and pieces < 80


def slowly(connection: socket.socket, piece: bytes) -> bytes:
    """All that is answered to pieces that come now and then."""
    found, over = [b""], threading.Event()

    def read() -> None:
        found[0] = everything(connection)
        over.set()

    thread = threading.Thread(target=read)
    thread.start()
    for _ in range(80):
        if over.wait(PAUSE):
            break
        with contextlib.suppress(ConnectionError):  # It has ended, and that is not read yet.
            connection.sendall(piece)
    connection.close() if not over.is_set() else None
    thread.join(PATIENCE)
    return found[0]


@pytest.mark.parametrize("how", SLOW_BODIES)
def test_a_body_ends_in_time_however_it_comes(server: Server, how: str) -> None:
    status, said, pieces = drip(server, *SLOW_BODIES[how], 90, PAUSE)
    assert status == 408 and "in time" in said and pieces < 90


@pytest.mark.parametrize("what", UNREAD)
def test_a_body_that_nobody_reads_ends_in_time(server: Server, what: str) -> None:
    with server.connect() as connection:
        connection.sendall(UNREAD[what])
        assert split(slowly(connection, b" "))[0] in (200, 401, 404)
        assert connection.fileno() >= 0, "the server did not end it"


def test_a_large_message_of_a_forge_is_read(server: Server) -> None:
    body = b"[" * (LARGEST_WEBHOOK - 1000)
    signature = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    with server.connect() as connection:
        head = f"{HOOK}X-Hub-Signature-256: sha256={signature}\r\nContent-Length: {len(body)}\r\n"
        connection.sendall(f"{head}Connection: close\r\n\r\n".encode())
        for start in range(0, len(body), MIB):
            connection.sendall(body[start : start + MIB])
        assert split(everything(connection)) == (202, '{"verdict":"moved"}')


# --- without end ----------------------------------------------------------------------------------------

ENDLESS = {
    "a header": (GET + b"A: ", b"b" * 65536),
    "headers": (GET, b"A: b\r\n" * 10000),
    "a request line": (b"GET /", b"a" * 65536),
    "a method": (b"G", b"G" * 65536),
    "empty lines": (b"", b"\r\n" * 30000),
    "a chunk's head": (POST + CHUNKED + b"1;", b"x" * 65536),
    "trailers": (GET + CHUNKED + b"0\r\n", b"A: b\r\n" * 10000),
    "a body that nobody reads": (GET + CHUNKED, b"10000\r\n" + b"x" * 65536 + b"\r\n"),
}


@pytest.mark.parametrize("what", ENDLESS)
def test_what_has_no_end_takes_no_memory(server: Server, what: str) -> None:
    begin, piece = ENDLESS[what]

    def attack() -> None:
        for _ in range(8):
            sent.append(pour(server, begin, piece, 24 * MIB))

    sent: list[int] = []
    assert growth(server, attack) < 16 * MIB
    assert what == "a body that nobody reads" or max(sent) < 24 * MIB
    assert server.ask("/healthz")[0] == 200


def test_unsigned_messages_are_not_kept(server: Server) -> None:
    """Whether one is signed is known when all of it is there: many come at once, and none to its end."""
    body = b"x" * (6 * MIB)

    def attack() -> None:
        with flood(server, 40, 1, f"{HOOK}{FORGED}Content-Length: {7 * MIB}\r\n\r\n".encode() + body):
            assert server.ask("/healthz")[0] == 200

    assert growth(server, attack) < 32 * MIB


def test_requests_whose_answers_nobody_takes(server: Server) -> None:
    """Many at once on each connection, the answers are large."""
    ask = b"GET /openapi.json HTTP/1.1\r\nHost: here\r\n\r\n" * 6000

    def attack() -> None:
        held = []
        for number in range(30):
            connection = server.connect(f"127.0.3.{number + 1}")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.setblocking(False)
            connection.send(ask)
            held.append(connection)
        assert server.ask("/healthz")[0] == 200
        for connection in held:
            connection.settimeout(PATIENCE)
            assert connection.recv(1, socket.MSG_PEEK), "it is being answered, and nothing is taken"
        until(lambda: server.connections() < 15, "the server ends them", seconds=PATIENCE)
        for connection in held:
            connection.close()

    assert growth(server, attack) < 32 * MIB


# --- too much in one piece, and what is no request ------------------------------------------------------

ODD = {
    "many headers": (GET + b"A: b\r\n" * 101 + b"\r\n", 431),
    "a large header": (GET + b"A: " + b"b" * 20_000 + b"\r\n\r\n", 431),
    "a long address": (b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: here\r\n\r\n", 431),
    "small chunks": (POST + CHUNKED + b"1\r\n \r\n" * 20_000 + b"0\r\n\r\n", 400),
    "a hello of TLS": (bytes.fromhex("16030100c8010000c40303") + b"\0" * 200, 400),
    "a hello of HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 404),
    "no host": (b"GET /healthz HTTP/1.1\r\n\r\n", 400),
    "two lengths": (POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n", 400),
    "a length and chunks": (POST + b"Content-Length: -5\r\n" + CHUNKED, 400),
    "a length of 5,000 digits": (POST + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n", 400),
    "zeros": (b"\0" * 10_000, 400),
    "a header without a name": (GET + b": b\r\n\r\n", 400),
    "a line goes on": (GET + b"A: b\r\n\x00 c\r\n\r\n", 400),
}


@pytest.mark.parametrize("what", ODD)
def test_what_is_no_request_is_refused_and_not_logged(server: Server, what: str) -> None:
    said, wanted = ODD[what]
    before = server.said()
    with server.connect() as connection:
        connection.sendall(said)
        status, body = split(everything(connection))
    assert status == wanted and body.startswith('{"detail":')
    assert server.said() == before
    assert server.ask("/healthz")[0] == 200


LEFT = {
    "a head": GET,
    "a body": POST + b"Content-Length: 100\r\n\r\n{",
    "a message of a forge": f"{HOOK}{FORGED}Content-Length: 1000\r\n\r\nx".encode(),
    "an answer": GET + b"\r\n",
    "wrong chunks after an answer": POST.replace(b"suspend", b"x") + CHUNKED + b"5\r\nabcde\r\n",
}


@pytest.mark.parametrize("how", ["half closed", "closed", "reset", "nonsense"])
@pytest.mark.parametrize("what", LEFT)
def test_who_leaves_in_the_middle_leaves_nothing_behind(server: Server, what: str, how: str) -> None:
    before, open_ = server.said(), server.connections()
    for _ in range(20):
        with server.connect() as connection:
            connection.sendall(LEFT[what])
            if what.endswith("answer"):
                connection.recv(10)
            if how == "half closed":
                connection.shutdown(socket.SHUT_WR)
                everything(connection)
            elif how == "reset":
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            elif how == "nonsense":
                connection.sendall(b"zz\r\n\r\n\0\0\r\n" * 100)
                everything(connection)
    until(lambda: server.connections() <= open_, "all are closed", seconds=PATIENCE)
    assert server.said() == before
    assert server.ask("/healthz")[0] == 200


# --- where everybody works ------------------------------------------------------------------------------


def test_streams_hold_all_connections_and_probes_are_answered(small: Server) -> None:
    held = [follow(small, NEWS) for _ in range(3)]
    for stream in held:
        stream.until(b"event: pass")
    # Three are what one address may have. Another one has room.
    assert small.api()[0] == 503 and "too many connections" in small.api()[1]
    assert [small.ask(path)[0] for path in ("/healthz", "/readyz")] == [200, 200]
    assert small.ask("/metrics", more=small.bearer())[0] == 200
    assert small.api("127.0.2.1")[0] == 200
    # A proxy's are many clients'.
    proxied = [follow(small, NEWS, "127.0.9.1") for _ in range(5)]
    for stream in proxied:
        stream.until(b"event: pass")
    assert small.api("127.0.2.1")[0] == 503
    with flood(small, 200, 1, b""), flood(small, 200, 100, GET):
        for source in ("127.0.0.1", "127.0.9.1", "127.0.2.1"):
            assert [small.ask(path, source)[0] for path in ("/healthz", "/readyz")] == [200, 200]
    for stream in held + proxied:
        stream.until(b"event: pass")
        stream.close()
    until(lambda: small.api()[0] == 200, "there is room again")
