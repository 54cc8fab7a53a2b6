"""Whoever may send bytes to the proxy of apps wants to pass without being asked, to be somebody else for an
app, or to reach something else through it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from bai.web.apps.proxy.caddy_config import LARGEST_HEAD
from tests.bai.web.apps.app_lab import HOST, AppLab, Gate, app_lab, decoded


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppLab]:
    with app_lab(tmp_path_factory.mktemp("storage")) as made:
        yield made


@pytest.fixture
def apps(shared: AppLab) -> AppLab:
    shared.gate.asked.clear()
    shared.gate.allowed, shared.gate.answer = {}, lambda path, headers: None
    return shared


def request(*headers: str, line: str = "GET / HTTP/1.1", host: str | None = HOST) -> bytes:
    lines = [line, *([f"Host: {host}"] if host is not None else []), "Connection: close", *headers]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


FORGED = (
    "Bai-Upstream: 127.0.0.1:1",
    "Bai-Cookie: admin=1",
    "Bai-Authorization: Bearer stolen",
    "Bai-Protocol: https",
    "Bai-Upgrade: websocket",
    "bai_upstream: 127.0.0.1:1",
    "X-Forwarded-Host: other.apps.example",
    "X-Forwarded-For: 10.0.0.1",
    "X-Forwarded-Proto: https",
    "X-Forwarded-Uri: /public",
    "X-Forwarded-Method: HEAD",
    "X-Forwarded-User: root",
    "X_Forwarded_For: 10.0.0.1",
    "X-Forwarded_User: root",
    "X-Real-Ip: 10.0.0.1",
    "Forwarded: for=10.0.0.1",
)


def test_names_that_are_the_proxys_own(apps: AppLab) -> None:
    app = dict(decoded(apps.send(request(*FORGED)))["headers"])
    gate = apps.gate.headers_of()
    for headers in (app, gate):
        text = str(headers)
        assert "10.0.0.1" not in text and "root" not in text and "stolen" not in text and "admin" not in text
        assert headers["x-forwarded-host"] == HOST and headers["x-forwarded-proto"] == "http"
        assert headers["x-forwarded-for"] == "127.0.0.1"
    assert (gate["x-forwarded-uri"], gate["x-forwarded-method"], gate["bai-upgrade"]) == ("/", "GET", "")
    assert not [name for name in app if name.startswith("bai") or "_" in name]
    assert "cookie" not in app and "authorization" not in app


@pytest.mark.parametrize("named", ["X-Forwarded-Host", "Bai-Upgrade", "Cookie", "Origin", "X-Forwarded-For"])
def test_headers_said_to_be_for_one_hop(apps: AppLab, named: str) -> None:
    """`Connection` names what a proxy takes off: what the gate goes by stays."""
    sent = request(f"Connection: close, {named}", "Cookie: a=b", "Origin: http://evil")
    decoded(apps.send(sent))
    gate = apps.gate.headers_of()
    assert (gate["cookie"], gate["origin"], gate["x-forwarded-host"]) == ("a=b", "http://evil", HOST)
    assert gate["x-forwarded-for"] == "127.0.0.1" and gate["bai-upgrade"] == ""


@pytest.mark.parametrize(
    "headers",
    [
        ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk"),
        ("Connection: Upgrade", "Upgrade: h2c, websocket"),
        ("Connection: Upgrade", "Upgrade: tcp"),
        ("Upgrade: websocket",),
    ],
)
def test_another_protocol_is_not_changed_to(apps: AppLab, headers: tuple[str, ...]) -> None:
    """After that nobody would be asked any more."""
    app = dict(decoded(apps.send(request(*headers)))["headers"])
    assert "upgrade" not in app and "http2-settings" not in app
    assert apps.gate.headers_of()["bai-upgrade"] == ""


def test_of_two_upgrades_the_gate_hears_what_the_app_does(apps: AppLab) -> None:
    answer = apps.send(
        request("Connection: Upgrade", "Upgrade: h2c", "Upgrade: websocket", line="GET /x HTTP/1.1")
    )
    assert apps.gate.headers_of()["bai-upgrade"] == "websocket"
    assert b'["upgrade","h2c"]' not in answer


@pytest.mark.parametrize(
    "host",
    [
        "apps.example", "other.example", "a.b.apps.example", ".apps.example", "127.0.0.1", "localhost",
        "lab.apps.example.evil.example", "lab.apps.example.", "", "evil.example#lab.apps.example",
        "lab.apps.example@evil.example", "evil.example/lab.apps.example", "[::1]",
    ],
)  # fmt: skip
def test_what_is_no_apps_address_is_not_asked_for(apps: AppLab, host: str) -> None:
    answer = apps.send(request(host=host))
    assert answer.startswith((b"HTTP/1.1 421 ", b"HTTP/1.1 400 "))
    assert apps.gate.asked == []


def test_two_hosts_or_none(apps: AppLab) -> None:
    for sent in (request("Host: other.apps.example"), request(host=None)):
        assert apps.send(sent).startswith(b"HTTP/1.1 400 ")
    assert apps.gate.asked == []


def test_a_whole_url_is_asked_for(apps: AppLab) -> None:
    """Gate and app hear of one host, whichever it is."""
    for url, host, status in (
        ("http://other.apps.example/x?y=1", HOST, 200),
        ("http://evil.example/x?y=1", HOST, 421),
        ("http://other.apps.example/x?y=1", "evil.example", 200),
    ):
        apps.gate.asked.clear()
        answer = apps.send(request(line=f"GET {url} HTTP/1.1", host=host))
        assert answer.startswith(f"HTTP/1.1 {status} ".encode())
        if status == 200:
            app, gate = decoded(answer), apps.gate.headers_of()
            assert gate["x-forwarded-host"] == dict(app["headers"])["host"] == "other.apps.example"
            assert gate["x-forwarded-uri"] == f"{app['path']}?{app['query']}" == "/x?y=1"
        else:
            assert apps.gate.asked == []


@pytest.mark.parametrize("target", ["lab.apps.example:80", "evil.example:22", "/"])
def test_no_connection_to_elsewhere(apps: AppLab, target: str) -> None:
    answer = apps.send(request(line=f"CONNECT {target} HTTP/1.1"))
    assert answer.startswith((b"HTTP/1.1 405 ", b"HTTP/1.1 421 ", b"HTTP/1.1 400 ")) and apps.gate.asked == []


@pytest.mark.parametrize(
    "path",
    [
        "//evil.example/x",
        "/..%2f..%2fcheck",
        "/./a/../check",
        "/?x=%0d%0aX-Evil:%201",
        "/?a={http.vars.upstream}",
    ],
)
def test_gate_and_app_hear_of_one_path(apps: AppLab, path: str) -> None:
    app = decoded(apps.send(request(line=f"GET {path} HTTP/1.1")))
    told = app["path"] + (f"?{app['query']}" if app["query"] else "")
    assert apps.gate.headers_of()["x-forwarded-uri"] == told == path
    assert "x-evil" not in dict(app["headers"])


def test_words_of_the_proxys_own_language_mean_nothing(apps: AppLab, monkeypatch: pytest.MonkeyPatch) -> None:
    words = "{env.HOME}{http.vars.upstream}{file./etc/passwd}{http.reverse_proxy.header.Bai-Upstream}"
    apps.gate.answer = lambda path, headers: (
        200,
        {
            "Bai-Upstream": apps.proxy.tunnels.address("kernel", apps.gate.port),
            "Bai-Cookie": headers["cookie"],
            "Bai-Authorization": headers["authorization"],
        },
        b"",
    )
    sent = request(
        f"Cookie: a={words}", f"Authorization: {words}", f"X-Custom: {words}", line=f"GET /?{words} HTTP/1.1"
    )
    app = decoded(apps.send(sent))
    headers, gate = dict(app["headers"]), apps.gate.headers_of()
    assert headers["cookie"] == gate["cookie"] == f"a={words}"
    assert headers["authorization"] == gate["authorization"] == words
    assert headers["x-custom"] == words and app["query"] == words


@pytest.mark.parametrize(
    "smuggled",
    [
        ("Content-Length: 5", "Transfer-Encoding: chunked"),
        ("Content-Length: 5", "Content-Length: 6"),
        ("Transfer-Encoding: chunked", "Transfer-Encoding: identity"),
        ("Transfer-Encoding: xchunked",),
        ("Transfer-Encoding : chunked",),
        ("Content-Length: +5",),
    ],
)
def test_a_second_request_in_the_body_of_the_first(apps: AppLab, smuggled: tuple[str, ...]) -> None:
    """Whatever is heard as a request was asked about."""
    second = f"GET /smuggled HTTP/1.1\r\nHost: {HOST}\r\n\r\n"
    head = "\r\n".join(["POST /first HTTP/1.1", f"Host: {HOST}", *smuggled, "", ""])
    apps.send(f"{head}0\r\n\r\n{second}".encode() + request(line="GET /last HTTP/1.1"))
    asked = [dict(pairs)["x-forwarded-uri"] for path, pairs in apps.gate.asked if path == "/check"]
    assert "/smuggled" not in asked or asked.index("/smuggled") > 0
    answers = [path for path, _ in apps.gate.asked]
    assert "/unanswered" not in answers


def test_a_head_without_end(apps: AppLab) -> None:
    answer = apps.send(request(*(f"X-{number}: {'a' * 8000}" for number in range(LARGEST_HEAD // 8000 + 2))))
    assert answer.startswith(b"HTTP/1.1 431 ") and apps.gate.asked == []


def test_line_ends_and_blanks_in_names(apps: AppLab) -> None:
    for bad in ("Bai-Upstream : x", "Bad Header: x", "X: a\rBai-Upstream: x", "X: a\x00b", ": x"):
        assert apps.send(request(bad)).startswith(b"HTTP/1.1 400 "), bad
    assert apps.gate.asked == []


HOSTILE = (
    "HTTP/1.1 103 Early Hints\r\nSet-Cookie: early=1; Domain=apps.example\r\nClear-Site-Data: *\r\n\r\n"
    "HTTP/1.1 200 OK\r\nSet-Cookie:   =__Host-bai-app=x\r\n"
    "Set-Cookie: z=1;domain=a;domain=b;domain=c;domain=d\r\n"
    "Bai-Upstream: 127.0.0.1:1\r\nConnection: close\r\nX-Accel-Redirect: /etc/passwd\r\n\r\nbody"
)


def test_what_a_hostile_app_answers(apps: AppLab) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            with server.accept()[0] as stream:
                stream.recv(65536)
                stream.sendall(HOSTILE.encode())

        thread = threading.Thread(target=answer)
        thread.start()
        real, apps.gate.port = apps.gate.port, server.getsockname()[1]
        try:
            told = apps.send(request()).decode()
        finally:
            apps.gate.port = real
            thread.join()
    lowered = told.lower()
    assert "domain=" not in lowered and "__host-bai" not in lowered and "clear-site-data" not in lowered
    assert ("bai-upstream" not in lowered and "z=1" in told and told.endswith("body")) or "body" in told


def test_an_answer_of_an_app_without_end_of_its_head(apps: AppLab) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            with server.accept()[0] as stream:
                stream.recv(65536)
                try:
                    stream.sendall(b"HTTP/1.1 200 OK\r\n")
                    for number in range(10_000):
                        stream.sendall(f"X-{number}: {'a' * 1000}\r\n".encode())
                except OSError:
                    pass

        thread = threading.Thread(target=answer)
        thread.start()
        real, apps.gate.port = apps.gate.port, server.getsockname()[1]
        try:
            assert apps.ask().status_code == 503
        finally:
            apps.gate.port = real
            thread.join()


def test_who_else_is_on_this_machine_reaches_neither_gate_nor_ways(tmp_path: Path) -> None:
    with app_lab(tmp_path, gate=Gate(0)) as lab:
        lab.ask()
        folder = lab.proxy.tunnels.folder
        assert folder.stat().st_mode & 0o077 == 0
        assert (folder / "gate").stat().st_mode & 0o077 == 0
