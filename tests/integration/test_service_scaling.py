"""A service that sleeps: `bai serve` with Caddy and native processes scales it from zero, up, and to zero."""

from __future__ import annotations

import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.bai.conftest import PATIENCE, Repo, new_repo, tidy
from tests.harness.ports import free_port
from tests.providers.test_prometheus import StandIn, running, sample
from tests.waiting import until

MOST = 3
_PROGRAM = """
import http.server, os

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/slow":
            self.connection.recv(1)  # Until whoever asked has gone.
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"awake")

    def log_message(self, *words):
        pass

http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["BAI_PORT_API"])), Handler).serve_forever()
"""


@dataclass
class Sleeper:
    repo: Repo
    port: int
    token: str
    access: str

    @property
    def host(self) -> str:
        return f"api--web--demo.apps.example:{self.port}"

    @contextmanager
    def served(self) -> Iterator[subprocess.Popen[str]]:
        server = self.repo.start(
            "serve", "--listen", "127.0.0.1:0", "--access", self.access, "--interval", "1s",
            "--apps-listen", f"127.0.0.1:{self.port}", "--apps-tls", "off", stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            yield server
            server.send_signal(signal.SIGTERM)
            assert server.wait(PATIENCE) == 0
        finally:
            server.kill()
            server.communicate()

    def ask(self, **headers: str) -> int:
        """The status; 0 where nobody answers."""
        url = f"http://127.0.0.1:{self.port}/"
        try:
            return httpx.get(url, headers={"Host": self.host, **headers}, timeout=PATIENCE).status_code
        except httpx.TransportError:
            return 0

    @property
    def login(self) -> str:
        return f"Bearer {self.token}"

    def slow(self) -> socket.socket:
        """A request that is under way until this is closed."""
        stream = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)
        head = f"GET /slow HTTP/1.1\r\nHost: {self.host}\r\nAuthorization: {self.login}\r\n\r\n"
        stream.sendall(head.encode())
        return stream

    def status(self) -> dict[str, Any]:
        (item,) = self.repo.ok("get", "services", "--format", "json").json["items"]
        status: dict[str, Any] = item["status"] or {}
        return {**status, "replicas": len(item["replicas"])}

    def sleeps(self) -> bool:
        found = self.status()
        return found.get("wanted") == 0 and not found["replicas"]

    def decisions(self) -> list[str]:
        events = self.repo.ok("events", "service/web", "-n", "1000").out.splitlines()
        return [line for line in events if "the autoscaler holds" in line]


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[Repo]:
    made = new_repo(tmp_path)
    yield made
    tidy(made)


@pytest.fixture
def sleeper(repo: Repo) -> Sleeper:
    made = repo.ok("token", "ada", "--role", "operator", "--format", "json").json
    access = repo.write(".access.yaml", yaml.safe_dump({"tokens": [made["line"]]}))
    port = free_port()
    service = {
        "template": {
            "resources": {"cpu": "100m", "memory": "128MiB"},
            "command": ["python3", "-c", _PROGRAM],
            "ports": [{"name": "api", "port": free_port()}],
        },
        "readiness": {"http": {"port": "api"}, "period": "1s"},
        "drain": "0s",
        "autoscaling": {"min": 0, "max": MOST, "inFlight": 1, "down": {"window": "3s"}},
    }
    documents = [
        {"kind": "AppProxy", "metadata": {"name": "apps"}, "spec": {"url": f"http://*.apps.example:{port}"}},
        {"kind": "Service", "metadata": {"name": "web", "project": "demo"}, "spec": service},
    ]
    text = "---\n".join(yaml.safe_dump({"apiVersion": "bai/v1", **each}) for each in documents)
    repo.write("web.yaml", text)
    return Sleeper(repo, port, made["token"], str(access))


@pytest.mark.slow
def test_from_zero_up_and_to_zero(sleeper: Sleeper) -> None:
    repo, slow = sleeper.repo, list[socket.socket]()
    with sleeper.served():
        until(lambda: sleeper.ask() == 401, "the gate answers")
        until(lambda: sleeper.sleeps() and sleeper.decisions(), "nobody asks, and none is left")
        told = len(sleeper.decisions())
        assert [sleeper.ask() for _ in range(20)] == [401] * 20
        assert [sleeper.ask(Authorization="Bearer forged") for _ in range(5)] == [401] * 5
        assert sleeper.ask(Authorization=sleeper.login) == 200, "the first request waits and is answered"
        woken = sleeper.decisions()[told:]
        assert "holds 1" in woken[0] and "1 request in flight" in woken[0], "strangers have woken nobody"
        slow += [sleeper.slow() for _ in range(MOST + 2)]
        until(lambda: sleeper.status().get("ready") == MOST, "a step of load brings more")
        assert sleeper.status()["replicas"] == MOST
        assert f"holds {MOST}" in "\n".join(sleeper.decisions())
        for each in slow:
            each.close()
        until(sleeper.sleeps, "they go again")
    assert "the autoscaler holds 0" in repo.ok("describe", "service/web").out


@pytest.mark.slow
def test_a_query_scales_what_nobody_sends_requests(repo: Repo) -> None:
    """The Prometheus is a stand-in that answers as one does."""
    prometheus = StandIn()
    prometheus.says("vector", [sample("25")])
    spec = {
        "template": {"resources": {"cpu": "100m", "memory": "64MiB"}, "command": ["sleep", "100000"]},
        "autoscaling": {
            "min": 0, "max": MOST, "down": {"window": "2s"},
            "prometheus": {"query": "sum(queue_length)", "target": 10},
        },
    }  # fmt: skip
    metadata = {"name": "worker", "project": "demo"}
    document = {"apiVersion": "bai/v1", "kind": "Service", "metadata": metadata, "spec": spec}
    repo.write("worker.yaml", yaml.safe_dump(document))

    def wanted() -> int:
        (item,) = repo.ok("get", "services", "--format", "json").json["items"]
        return int((item["status"] or {}).get("wanted", -1))

    with running(prometheus.server):
        words = ["--interval", "1s", "--prometheus", prometheus.url]
        loop = repo.start("reconcile", *words, stderr=subprocess.STDOUT)
        try:
            until(lambda: wanted() == 3, "there are as many as the queue needs")
            assert {tuple(each["query"]) for _, _, each in prometheus.asked} == {("sum(queue_length)",)}
            loop.send_signal(signal.SIGTERM)
            assert loop.wait(PATIENCE) == 0
        finally:
            loop.kill()
            loop.communicate()
    words_of_it = "the autoscaler holds 3: the query says 25, 10 for each replica"
    assert words_of_it in repo.ok("events", "service/worker").out
    assert words_of_it in " ".join(repo.ok("describe", "service/worker").out.split())


@pytest.mark.slow
def test_what_is_held_outlives_a_killed_server(sleeper: Sleeper) -> None:
    with sleeper.served() as server:
        until(lambda: sleeper.ask(Authorization=sleeper.login) == 200, "it answers")
        slow = [sleeper.slow() for _ in range(2)]
        until(lambda: sleeper.status().get("ready") == 2, "there are two")
        server.kill()
        server.wait(PATIENCE)
        for each in slow:
            each.close()
        said = sleeper.repo.ok("plan").out
        assert "No changes" in said and "the autoscaler holds 2" in said, said
        server.send_signal = lambda _: None  # type: ignore[method-assign]
        server.wait = lambda *_: 0  # type: ignore[method-assign,assignment]
    with sleeper.served():
        until(sleeper.sleeps, "the next one goes on from there")
