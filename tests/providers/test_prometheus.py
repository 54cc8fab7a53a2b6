"""The client of Prometheus, against a small server that answers as one does, and against a real one where
that is installed."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from providers import prometheus as client
from providers.prometheus import LONGEST_ANSWER, Prometheus
from schemas.problems.errors.command import CommandError
from tests.waiting import until


class StandIn:
    """Not a Prometheus: it says what the test says, and remembers what it was asked."""

    def __init__(self) -> None:
        self.status, self.body = 200, b""
        self.headers: dict[str, str] = {}
        self.asked: list[tuple[str, str, dict[str, list[str]]]] = []
        self.hangs = threading.Event()
        self.hanging = False
        stand_in = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                stand_in.asked.append((self.command, parts.path, parse_qs(parts.query)))
                self.send_response(stand_in.status)
                for name, value in stand_in.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(stand_in.body)
                self.wfile.flush()
                if stand_in.hanging:
                    stand_in.hangs.wait(60)

            do_POST = do_PUT = do_DELETE = do_GET

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def says(self, kind: str, result: Any) -> None:
        data = {"resultType": kind, "result": result}
        self.body = json.dumps({"status": "success", "data": data}).encode()


@contextmanager
def running(server: ThreadingHTTPServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def stand_in() -> Iterator[StandIn]:
    made = StandIn()
    with running(made.server):
        yield made
        made.hangs.set()


@pytest.fixture
def said() -> list[str]:
    return []


def sample(value: str) -> dict[str, Any]:
    return {"metric": {}, "value": [1700000000.123, value]}


def test_a_vector_of_one_and_a_scalar_give_their_number(stand_in: StandIn, said: list[str]) -> None:
    asked = Prometheus(stand_in.url, said.append)
    stand_in.says("vector", [sample("4.5")])
    assert asked.query('sum(rate(x{job="a&b"}[1m])) # /..?') == 4.5
    stand_in.says("scalar", [1700000000, "7"])
    assert asked.query("scalar(x)") == 7.0
    assert [(verb, path) for verb, path, _ in stand_in.asked] == [("GET", "/api/v1/query")] * 2
    assert stand_in.asked[0][2]["query"] == ['sum(rate(x{job="a&b"}[1m])) # /..?']
    assert not said


def test_it_may_be_below_a_path(stand_in: StandIn, said: list[str]) -> None:
    stand_in.says("scalar", [0, "1"])
    assert Prometheus(f"{stand_in.url}/prometheus/", said.append).query("x") == 1.0
    assert stand_in.asked[0][1] == "/prometheus/api/v1/query"


@pytest.mark.parametrize(
    ("kind", "result", "why"),
    [
        ("vector", [], "no series"),
        ("vector", [sample("1"), sample("2")], "several series"),
        ("vector", [sample("NaN")], "NaN, which is no number"),
        ("vector", [sample("+Inf")], "+Inf, which is no number"),
        ("vector", [sample("many")], "not understood"),
        ("vector", [{"value": 3}], "no number"),
        ("vector", ["1"], "no number"),
        ("matrix", [{"values": [[0, "1"]]}], "neither a scalar"),
        ("string", [0, "1"], "neither a scalar"),
        ("scalar", {"0": 1}, "no number"),
    ],
)
def test_what_is_not_one_number_is_none_and_said_once(
    stand_in: StandIn, said: list[str], kind: str, result: Any, why: str
) -> None:
    asked = Prometheus(stand_in.url, said.append)
    stand_in.says(kind, result)
    assert [asked.query("x") for _ in range(3)] == [None] * 3
    assert len(said) == 1 and why in said[0] and "'x'" in said[0]
    stand_in.says("scalar", [0, "1"])
    assert asked.query("x") == 1.0
    stand_in.says(kind, result)
    assert asked.query("x") is None and len(said) == 2, "after a good answer it is news again"


def test_an_error_is_told_in_its_words(stand_in: StandIn, said: list[str]) -> None:
    stand_in.status = 400
    stand_in.body = json.dumps({"status": "error", "error": "parse error\u001b[31m"}).encode()
    assert Prometheus(stand_in.url, said.append).query("x(") is None
    assert "HTTP 400" in said[0] and "parse error" in said[0] and "\x1b" not in said[0]
    stand_in.body = b"<html>"
    assert Prometheus(stand_in.url, said.append).query("x(") is None
    assert "no JSON" in said[1]


def test_nobody_there(said: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    assert Prometheus(f"http://127.0.0.1:{port}", said.append).query("x") is None
    assert "not reached" in said[0]


def test_an_answer_is_bounded(stand_in: StandIn, said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in.body = b" " * (LONGEST_ANSWER + 1)
    stand_in.hanging = True  # It would send more.
    assert Prometheus(stand_in.url, said.append).query("x") is None
    assert "more than one number" in said[0]
    monkeypatch.setattr(client, "TIMEOUT", 0.2)
    stand_in.body = b"{"
    assert Prometheus(stand_in.url, said.append).query("x") is None
    assert len(said) == 2


def test_a_query_chooses_no_other_server_nor_path(stand_in: StandIn, said: list[str]) -> None:
    """A committer's words go to the operator's server alone, as a parameter; a redirect leads nowhere."""
    trap = StandIn()
    trap.says("scalar", [0, "666"])
    with running(trap.server):
        stand_in.status, stand_in.headers = 302, {"Location": f"{trap.url}/api/v1/query"}
        for query in (
            trap.url, f"//{trap.url.partition('//')[2]}/x", "@127.0.0.1/", "../../admin/tsdb/delete_series",
            "x&timeout=1h", "x HTTP/1.1\r\nHost: evil", "x#", "%2e%2e/",
        ):  # fmt: skip
            assert Prometheus(stand_in.url, said.append).query(query) is None
            verb, path, parameters = stand_in.asked[-1]
            assert (verb, path) == ("GET", "/api/v1/query") and parameters["query"] == [query]
            assert parameters["timeout"] == ["5s"]
        assert not trap.asked


@pytest.mark.parametrize(
    "url",
    [
        "prometheus:9090", "file:///etc/passwd", "http://", "http://jo:secret@prometheus", "http://p/?x=1",
        "http://p/#x", "http://p:port/", "http://[::1",
    ],
)  # fmt: skip
def test_what_is_no_url_of_a_server(url: str) -> None:
    with pytest.raises(CommandError, match="--prometheus"):
        Prometheus(url, print)


@pytest.mark.skipif(not shutil.which("prometheus"), reason="needs prometheus")
def test_a_real_one(tmp_path: Path, said: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (tmp_path / "prometheus.yml").write_text("global: {}\n")
    process = subprocess.Popen(
        ["prometheus", f"--web.listen-address=127.0.0.1:{port}", "--config.file=prometheus.yml",
         "--storage.tsdb.path=data"],
        cwd=tmp_path, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    url = f"http://127.0.0.1:{port}"

    def ready() -> bool:
        try:
            with urllib.request.urlopen(f"{url}/-/ready", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    try:
        until(ready, "it is ready")
        asked = Prometheus(url, said.append)
        assert asked.query("scalar(vector(4.5))") == 4.5
        assert asked.query("sum(vector(3))") == 3.0
        assert not said
        for query, why in (
            ("up", "no series"), ("vector(1) / 0", "+Inf"), ("sum(", "parse error"), ('"x"', "neither"),
            ('label_replace(vector(1), "a", "b", "", "") or vector(2)', "several series"),
        ):  # fmt: skip
            assert asked.query(query) is None
            assert why in said[-1], said
    finally:
        process.terminate()
        process.wait()
