"""What a forge's answers, and silence, lead to: asked again as long as that may help, and not for ever."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from providers.forge.base import ForgeApi
from schemas.problems.errors.forge import ForgeRefused, ForgeUnreachable

Answer = tuple[int, dict[str, str], bytes]


class Forge(ThreadingHTTPServer):
    """Gives its answers in turn, the last one for ever."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: list[Answer] = []
        self.asked = 0
        self.slept: list[float] = []

    def api(self) -> ForgeApi:
        return ForgeApi(f"http://127.0.0.1:{self.server_port}", {}, sleep=self.slept.append)


class _Handler(BaseHTTPRequestHandler):
    server: Forge

    def do_GET(self) -> None:
        status, headers, body = self.server.answers[min(self.server.asked, len(self.server.answers) - 1)]
        self.server.asked += 1
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def forge() -> Iterator[Forge]:
    server = Forge()
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_what_may_pass_is_asked_again(forge: Forge, method: str) -> None:
    forge.answers = [(502, {}, b""), (429, {"Retry-After": "7"}, b""), (200, {}, b"[1]")]
    assert forge.api().call(method, "/x") == [1]
    assert (forge.asked, forge.slept) == (3, [0.5, 7.0])


@pytest.mark.parametrize("asked_for", ["86400", "9" * 400])
def test_nobody_is_waited_for_for_ever(forge: Forge, asked_for: str) -> None:
    forge.answers = [(503, {"Retry-After": asked_for}, b"")]
    with pytest.raises(ForgeRefused, match="503"):
        forge.api().call("GET", "/x")
    assert (forge.asked, forge.slept) == (5, [60.0] * 4)


@pytest.mark.parametrize("asked_for", ["soon", "-1", "Wed, 21 Oct 2099 07:28:00 GMT", ""])
def test_what_is_no_number_of_seconds_is_not_followed(forge: Forge, asked_for: str) -> None:
    forge.answers = [(503, {"Retry-After": asked_for}, b""), (200, {}, b"")]
    assert forge.api().call("GET", "/x") is None
    assert forge.slept == [0.5]


@pytest.mark.parametrize("status", [400, 401, 404, 500])
def test_what_will_not_pass_is_said_at_once(forge: Forge, status: int) -> None:
    forge.answers = [(status, {}, b'{"message": "no"}')]
    with pytest.raises(ForgeRefused, match=f"{status} no"):
        forge.api().call("GET", "/x")
    assert (forge.asked, forge.slept) == (1, [])


def test_a_forge_that_refuses_connections_is_tried_five_times() -> None:
    slept: list[float] = []
    with socket.socket() as held:  # Who only has the port does not listen there, and nobody else can.
        held.bind(("127.0.0.1", 0))
        api = ForgeApi(f"http://127.0.0.1:{held.getsockname()[1]}", {}, sleep=slept.append)
        with pytest.raises(ForgeUnreachable, match="ConnectionError"):
            api.call("GET", "/x")
    assert slept == [0.5, 1.0, 2.0, 4.0]


def test_who_shows_no_certificate_is_not_asked_again(forge: Forge) -> None:
    api = ForgeApi(f"https://127.0.0.1:{forge.server_port}", {}, sleep=forge.slept.append)
    with pytest.raises(ForgeUnreachable, match="SSLError"):
        api.call("GET", "/x")
    assert forge.slept == []
