"""What a server can do to whoever asks it: show text, and nothing else."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from bai.queries.models import GetQuery
from bai.remote import client as client_module
from bai.remote import event_stream, identity_provider
from bai.remote.client import ApiClient
from bai.remote.cluster import RemoteCluster
from bai.remote.event_stream import StreamMessage, read_messages
from bai.remote.identity_provider import IdentityProvider, expires_at
from bai.render.printout import Span, rich_line
from schemas.problems.errors.server import LoginFailed, ServerError, ServerRefused, ServerUnreachable
from tests.bai.remote.conftest import Laptop
from tests.bai.web.lab import PATIENCE

Answer = Callable[[BaseHTTPRequestHandler], None]


class HostileServer:
    """Answers as it is told, by path; `asked` holds paths and the tokens shown."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.asked: list[tuple[str, str]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # else each answer waits 40 ms for an acknowledgement

            def do_GET(self) -> None:
                path = self.path.partition("?")[0]
                outer.asked.append((path, self.headers.get("Authorization", "")))
                outer.answers[path](self)

            do_POST = do_GET

            def log_message(self, format: str, *arguments: object) -> None:
                return None

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def hostile(monkeypatch: pytest.MonkeyPatch) -> Iterator[HostileServer]:
    """Which nobody gives up for being slow."""
    monkeypatch.setattr(identity_provider, "TIMEOUT", PATIENCE)
    made = HostileServer()
    yield made
    made.close()


def says(status: int, body: bytes, **headers: str) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def of(hostile: HostileServer) -> ApiClient:
    return ApiClient(hostile.address, token=lambda: "secret")


def test_nobody_is_led_elsewhere_with_a_token(hostile: HostileServer) -> None:
    other = HostileServer()
    other.answers["/x"] = says(200, b"{}")
    for status in (301, 302, 307, 308):
        hostile.answers["/x"] = says(status, b"", Location=f"{other.address}/x")
        for ask in (lambda: of(hostile).get("/x"), lambda: of(hostile).post("/x", {})):
            with pytest.raises(ServerError, match="not followed"):
                ask()
    assert other.asked == []
    other.close()


def test_what_it_says_drives_no_terminal(hostile: HostileServer, laptop: Laptop) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\u202e"
    printout = {
        "blocks": [
            {"columns": [evil], "rows": [[evil]], "empty": evil},
            {"lines": [[{"text": evil, "style": "link https://evil.example"}]], "wrap": True},
            {"sections": [{"title": evil, "parts": [evil], "level": 1}]},
        ],
        "notes": [evil],
        "warnings": [evil],
    }
    hostile.answers = {
        "/api/v1/whoami": says(200, json.dumps({"name": f"ada{evil}", "roles": [{"role": evil}]}).encode()),
        "/api/v1/clusters": says(200, b'[{"name": "here"}]'),
        "/api/v1/clusters/here/commands/get": says(200, json.dumps(printout).encode()),
        "/api/v1/clusters/here/commands/status": says(404, json.dumps({"detail": evil}).encode()),
    }
    said = laptop.ok("login", hostile.address, "--token", "-", stdin="t\n")
    told = [said, laptop.ok("get"), laptop("status")]
    assert told[2].code == 1
    for each in told:
        assert not {"\x1b", "\x07", "\u202e"} & set(each.out + each.err), each
    line = rich_line([Span("a", "link https://evil.example"), Span("b", "conceal"), Span("c", "bold red")])
    assert [str(span.style) for span in line.spans] == ["bold red"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"nonsense",
        b'{"blocks": 3}',
        b'{"blocks": [{"rows": 1}]}',
        b'{"blocks": [{"columns": ["a"], "rows": [["b", "c"]]}]}',
        b"[" * 100_000,
    ],
)
def test_answers_that_are_none(hostile: HostileServer, body: bytes) -> None:
    hostile.answers["/api/v1/clusters/here/commands/get"] = says(200, body)
    with pytest.raises(ServerError):
        RemoteCluster(of(hostile), "here").read(GetQuery())


@pytest.mark.parametrize(
    "change", [{"cpuSeconds": "1e999"}, {"at": "never"}, {"memory": -1}, {"gpus": []}, {"id": None}]
)
def test_use_that_is_none(hostile: HostileServer, change: dict[str, object]) -> None:
    good: dict[str, object] = {
        "id": "k", "session": "Session/p/a", "kernel": "main1", "node": "n1", "at": "2026-01-01T00:00:00Z",
        "cpuSeconds": 1, "memory": None, "memoryLimit": None, "networkIn": None, "networkOut": None,
        "pids": 1, "gpus": {},
    }  # fmt: skip
    path = "/api/v1/clusters/here/usage"
    hostile.answers[path] = says(200, json.dumps({"kernels": [good]}).encode())
    assert RemoteCluster(of(hostile), "here").usage().kernels[0].id == "k"
    hostile.answers[path] = says(200, json.dumps({"kernels": [good | change]}).encode())
    with pytest.raises(ServerError, match="what sessions use"):
        RemoteCluster(of(hostile), "here").usage()


def test_an_answer_without_an_end(hostile: HostileServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "LARGEST", 1 << 20)

    def endless(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Encoding", "identity")
        handler.end_headers()
        handler.close_connection = True
        with pytest.raises(OSError):
            while True:
                handler.wfile.write(b" " * 65_536)

    hostile.answers["/x"] = endless
    with pytest.raises(ServerError, match="more than 1 MiB"):
        of(hostile).get("/x")


def test_a_busy_server_is_asked_again_but_told_once(hostile: HostileServer) -> None:
    hostile.answers["/x"] = says(503, b'{"detail": "nothing was seen yet"}', Retry_After="0")
    with pytest.raises(ServerUnreachable, match="nothing was seen yet"):
        of(hostile).get("/x")
    assert len(hostile.asked) == client_module.ATTEMPTS
    with pytest.raises(ServerUnreachable):
        of(hostile).post("/x", {})
    assert len(hostile.asked) == client_module.ATTEMPTS + 1


def test_no_login_of_netrc_is_sent(
    hostile: HostileServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login a password b\n")
    (tmp_path / "netrc").chmod(0o600)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    hostile.answers["/x"] = says(200, b"{}")
    ApiClient(hostile.address).get("/x")
    of(hostile).get("/x")
    assert [token for _, token in hostile.asked] == ["", "Bearer secret"]


def test_names_stay_within_their_part_of_an_address(hostile: HostileServer) -> None:
    hostile.answers["/api/v1/clusters/..%2F..%2Fadmin%3Fx/suspend"] = says(200, b"{}")
    RemoteCluster(of(hostile), "../../admin?x").order("suspend", {})
    assert len(hostile.asked) == 1


@pytest.mark.parametrize(
    ("pieces", "found"),
    [
        ([b"event: a\ndata: 1\nid: 7\n\n"], [StreamMessage("a", "1", "7")]),
        ([b": ping\r\n\r\ndata:x\r\n", b"data: y\r\n\r\n"], [StreamMessage("message", "x\ny")]),
        ([b"dat", b"a: \xff\n", b"\n"], [StreamMessage("message", "\ufffd")]),
        ([b"data: cut off"], []),
        ([b"nonsense\n\ndata\n\n"], [StreamMessage("message", "")]),
    ],
)
def test_messages_of_a_stream(pieces: list[bytes], found: list[StreamMessage]) -> None:
    assert list(read_messages(pieces)) == found
    joined = b"".join(pieces)
    assert list(read_messages(bytes([byte]) for byte in joined)) == found


def test_a_stream_without_lines_or_without_an_end_of_a_message() -> None:
    with pytest.raises(ValueError, match="a line of more"):
        list(read_messages(b"x" * 65_536 for _ in range(100)))
    with pytest.raises(ValueError, match="a message of more"):
        list(read_messages(b"data: x\n" for _ in range(event_stream.MOST_LINES + 1)))


# --- an identity provider that is none of ours ------------------------------------------------------------


def discovery(hostile: HostileServer, **changes: Any) -> bytes:
    found = {
        "issuer": hostile.address,
        "token_endpoint": f"{hostile.address}/token",
        "device_authorization_endpoint": f"{hostile.address}/device",
    }
    return json.dumps(found | changes).encode()


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"issuer": "https://other.example"}, "calls itself"),
        ({"device_authorization_endpoint": None}, "has no device_authorization_endpoint"),
        ({"device_authorization_endpoint": "http://evil.example/device"}, "without TLS"),
        ({"device_authorization_endpoint": "file:///etc/passwd"}, "no address"),
    ],
)
def test_a_provider_that_leads_elsewhere(hostile: HostileServer, changes: dict[str, Any], why: str) -> None:
    hostile.answers["/.well-known/openid-configuration"] = says(200, discovery(hostile, **changes))
    with pytest.raises(LoginFailed, match=why):
        IdentityProvider(hostile.address, "bai").log_in(lambda code: None)


@pytest.mark.parametrize(
    "answer",
    [{}, {"device_code": 1, "user_code": "x", "verification_uri": "y"}, {"device_code": "d"}],
)
def test_a_provider_that_gives_no_code(hostile: HostileServer, answer: dict[str, Any]) -> None:
    hostile.answers["/.well-known/openid-configuration"] = says(200, discovery(hostile))
    hostile.answers["/device"] = says(200, json.dumps(answer).encode())
    with pytest.raises(LoginFailed, match="its answer has no"):
        IdentityProvider(hostile.address, "bai").log_in(lambda code: None)


def test_a_provider_that_never_answers_yes_is_asked_less_often_and_given_up(hostile: HostileServer) -> None:
    waits: list[float] = []
    hostile.answers["/.well-known/openid-configuration"] = says(200, discovery(hostile))
    code = {"device_code": "d", "user_code": "U", "verification_uri": "https://x", "interval": 2}
    hostile.answers["/device"] = says(200, json.dumps({**code, "expires_in": 10**9}).encode())
    replies = iter(["slow_down", "authorization_pending", "slow_down"])

    def answer(handler: BaseHTTPRequestHandler) -> None:
        error = next(replies, "authorization_pending")
        says(400, json.dumps({"error": error}).encode())(handler)

    hostile.answers["/token"] = answer
    provider = IdentityProvider(
        hostile.address, "bai", sleep=waits.append, clock=lambda: sum(waits) if waits else 0.0
    )
    with pytest.raises(LoginFailed, match="not used in time"):
        provider.log_in(lambda code: None)
    assert waits[:5] == [2.0, 7.0, 7.0, 12.0, 12.0] and sum(waits) < 2000


def test_a_provider_that_is_away_for_a_moment_is_asked_again(hostile: HostileServer) -> None:
    waits: list[float] = []
    hostile.answers["/.well-known/openid-configuration"] = says(200, discovery(hostile))
    code = {"device_code": "d", "user_code": "U", "verification_uri": "https://x", "interval": 1}
    hostile.answers["/device"] = says(200, json.dumps(code).encode())
    away = iter([True, True])

    def answer(handler: BaseHTTPRequestHandler) -> None:
        if next(away, False):
            handler.close_connection = True
            handler.connection.close()
        else:
            says(200, b'{"id_token": "a.b.c"}')(handler)

    hostile.answers["/token"] = answer
    provider = IdentityProvider(hostile.address, "bai", sleep=waits.append, clock=lambda: sum(waits))
    assert provider.log_in(lambda code: None).id == "a.b.c"
    assert waits == [1.0, 2.0, 4.0]


@pytest.mark.parametrize("token", ["", "a.b", "a.bm90anNvbg.c", "a.W10.c", "a.eyJleHAiOiJ4In0.c"])
def test_a_token_that_does_not_say_when_it_ends(token: str) -> None:
    assert expires_at(token) == 0.0


def test_a_refusal_is_told_with_what_was_asked(hostile: HostileServer) -> None:
    hostile.answers["/x"] = says(403, b'{"detail": "this needs the role admin"}')
    with pytest.raises(ServerRefused, match=r"POST /x.*needs the role admin"):
        of(hostile).post("/x", {})
