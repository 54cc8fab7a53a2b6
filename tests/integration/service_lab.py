"""`bai serve` with a service behind the real Caddy, and the truth about its replicas: they say themselves
when they begin and stop to serve.

Where a replica ends without a word, whoever ends it says so (`Life.end`). What runs is read from /proc of
this machine, which shows processes in containers, too.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests
import yaml

from tests.bai.conftest import PATIENCE, Repo
from tests.harness.ports import free_port
from tests.integration.service_grounds import ServiceGround
from tests.integration.service_load import Load
from tests.waiting import until

PYTHON = "/usr/bin/python3"
PROGRAM = """
import http.server, json, os, signal, socket, time

VERSION, REPLICA = os.environ["VERSION"], os.environ["BACKENDAI_SESSION_NAME"]
LIFE = os.urandom(8).hex()
teller = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

def tell(event):
    said = {"event": event, "version": VERSION, "replica": REPLICA, "life": LIFE, "at": time.monotonic()}
    host, port = os.environ["TELL"].split(":")
    teller.sendto(json.dumps(said).encode(), (host, int(port)))

class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 128

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/health" and "BROKEN" in os.environ:
            return self.answer(503, {})
        if self.path != "/stream":
            return self.answer(200, {"version": VERSION})
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for line in [json.dumps({"version": VERSION}), *map(str, range(5)), "end"]:
            self.wfile.write(line.encode() + b"\\n")
            time.sleep(0.05)

    def do_POST(self):
        length = len(self.rfile.read(int(self.headers["Content-Length"])))
        self.answer(200, {"version": VERSION, "length": length})

    def answer(self, status, value):
        body = json.dumps(value).encode()
        head = f"HTTP/1.0 {status} Said\\r\\nContent-Length: {len(body)}\\r\\n\\r\\n"
        self.wfile.write(head.encode() + body)

    def log_message(self, *words):
        pass

def end(*_):
    tell("ends")
    os._exit(0)

server = Server((os.environ["LISTEN"], int(os.environ["BAI_PORT_HTTP"])), Handler)
signal.signal(signal.SIGTERM, end)
if "BROKEN" not in os.environ:
    tell("serves")
server.serve_forever()
"""
"""It ends at once when it is told to: whoever it has not answered by then has no answer."""
SERVICE = "Service/demo/web"


@dataclass
class Life:
    """Of one process of a replica. `end`: when it stopped to take requests, or was killed."""

    version: str
    replica: str
    begin: float
    end: float | None = None


@dataclass(frozen=True)
class ReplicaProcess:
    """`replica`: the name of its session."""

    pid: int
    replica: str
    version: str


def kill_process(pid: int) -> tuple[float, float]:
    """By SIGKILL; gives the time in which it ended."""
    with os.fdopen(os.pidfd_open(pid)) as handle:
        begun = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        select.select([handle], [], [])
    return begun, time.monotonic()


class Lives:
    """What replicas tell, at `address`."""

    def __init__(self, receiver: socket.socket) -> None:
        self._socket = receiver
        host, port = receiver.getsockname()
        self.address = f"{host}:{port}"
        self.known: dict[str, Life] = {}
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def _listen(self) -> None:
        while said := self._socket.recv(4096):
            told = json.loads(said)
            if told["event"] == "serves":
                self.known[told["life"]] = Life(told["version"], told["replica"], told["at"])
            elif told["life"] in self.known:
                self.known[told["life"]].end = told["at"]

    def close(self) -> None:
        self._socket.sendto(b"", self._socket.getsockname())
        self._thread.join()
        self._socket.close()

    def serving(self) -> list[Life]:
        return [each for each in list(self.known.values()) if each.end is None]

    def versions(self) -> Counter[str]:
        return Counter(each.version for each in self.serving())

    def kill(self, life: Life) -> tuple[float, float]:
        """By SIGKILL; gives the time in which it ended."""
        killed = kill_process(self.pid(life))
        life.end = killed[1]
        return killed

    def when_ended(self, lives: Collection[Life]) -> threading.Thread:
        """Until all of them have ended, whoever ends them: a thread that writes down when each did. An update
        may have ended one just now."""
        handles: dict[int, Life] = {}
        for each in lives:
            try:
                handles[os.pidfd_open(self.pid(each))] = each
            except ProcessLookupError:
                each.end = each.end or time.monotonic()

        def watch() -> None:
            while handles:
                for handle in select.select(list(handles), [], [])[0]:
                    life = handles.pop(handle)
                    life.end = life.end or time.monotonic()
                    os.close(handle)

        watching = threading.Thread(target=watch, daemon=True)
        watching.start()
        return watching

    def pid(self, life: Life) -> int:
        """Raises ProcessLookupError where it has ended."""
        found = [each.pid for each in self.processes() if each.replica == life.replica]
        if not found:
            raise ProcessLookupError(life.replica)
        (pid,) = found
        return pid

    def there(self) -> list[Life]:
        """Those of them that serve whose process has not ended: an update may end one just now."""
        replicas = {each.replica for each in self.processes()}
        return [each for each in self.serving() if each.replica in replicas]

    def processes(self) -> list[ReplicaProcess]:
        """Of replicas that tell here, whatever bai says of them."""
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdecimal() else []
                pairs = (entry / "environ").read_text().split("\0") if words[1:2] == [b"-S"] else []
                env = dict(each.split("=", 1) for each in pairs if "=" in each)
                if env.get("TELL") == self.address:
                    found.append(
                        ReplicaProcess(int(entry.name), env["BACKENDAI_SESSION_NAME"], env["VERSION"])
                    )
        return found

    def least(self, since: float) -> int:
        """How many served at the worst moment from then on."""
        lives = list(self.known.values())
        moments = [since, *(each.end for each in lives if each.end is not None and each.end > since)]
        return min(
            sum(each.begin <= moment and (each.end is None or each.end > moment) for each in lives)
            for moment in moments
        )


def service_document(
    ground: ServiceGround, env: Mapping[str, str], replicas: int, port: int, update: Mapping[str, Any]
) -> str:
    """Of `PROGRAM`."""
    template = {
        "resources": {"cpu": "100m", "memory": "64MiB"}, "env": {**env, "LISTEN": ground.listen},
        "command": [PYTHON, "-S", "-c", PROGRAM], "ports": [{"name": "http", "port": port}],
        "stop": {"grace": "30s"}, **ground.template(),
    }  # fmt: skip
    readiness = {"http": {"port": "http", "path": "/health"}, "period": "1s", "timeout": "60s"}
    spec = {
        "replicas": replicas, "template": template, "readiness": readiness, "drain": "60s",
        "update": dict(update),
    }  # fmt: skip
    metadata = {"name": "web", "project": "demo"}
    return yaml.safe_dump({"apiVersion": "bai/v1", "kind": "Service", "metadata": metadata, "spec": spec})


@dataclass
class ServiceLab:
    """One server; `load` asks the service at the port of apps."""

    ground: ServiceGround
    repo: Repo
    token: str
    panel: int
    apps: int
    replicas: int
    lives: Lives
    port: int = field(default_factory=free_port)
    """Of the first replica; bai finds others for the rest where they share a network."""
    process: Any = None

    @property
    def log(self) -> Path:
        return self.repo.root.with_name("serve.log")

    def write(self, version: str, *, broken: bool = False, **update: Any) -> None:
        env = {"VERSION": version, "TELL": self.lives.address, **({"BROKEN": "yes"} if broken else {})}
        document = service_document(self.ground, env, self.replicas, self.port, update)
        self._replace("service.yaml", document)

    def drain(self, node: str) -> None:
        """This one alone; none where it is empty."""
        self._replace("cluster.yaml", self.ground.cluster(node))

    def _replace(self, name: str, text: str) -> None:
        """At once: the server reads whenever it likes."""
        self.repo.write(f".{name}.new", text).replace(self.repo.root / name)

    def load(self, clients: int = 6) -> Load:
        host = f"http--web--demo.apps.example:{self.apps}"
        return Load(self.apps, {"Host": host, "Authorization": f"Bearer {self.token}"}, clients)

    def serve(self) -> None:
        words = [
            "serve", "--listen", f"127.0.0.1:{self.panel}", "--apps-listen", f"127.0.0.1:{self.apps}",
            "--apps-tls", "off", "--access", str(self.repo.root / ".access.yaml"), "--interval", "1s",
        ]  # fmt: skip
        with self.log.open("a") as out:
            self.process = self.repo.stay(*words, out=out)

    def kill(self) -> float:
        """The server, by SIGKILL; gives when it was."""
        killed_at = time.monotonic()
        self.process.kill()
        self.process.wait(PATIENCE)
        return killed_at

    def service(self) -> dict[str, Any]:
        """As the last pass saw it; empty before there was one."""
        try:
            answer = requests.get(
                f"http://127.0.0.1:{self.panel}/api/v1/clusters/here/resources/{SERVICE}",
                headers={"Authorization": f"Bearer {self.token}"}, timeout=60,
            )  # fmt: skip
        except requests.ConnectionError:
            return {}
        found: dict[str, Any] = answer.json() if answer.ok else {}
        return found

    def status(self) -> dict[str, Any]:
        """The same; empty, too, where the last pass had no plan."""
        return self.service().get("status") or {}

    def has_failed(self) -> bool:
        """Whether its latest generation was given up."""
        return self.status().get("phase") == "failed"

    def complete(self, version: str) -> bool:
        """Whether replicas of this one alone serve, and the server says so."""
        status = self.status()
        serving = self.lives.versions() == Counter({version: self.replicas})
        said = status.get("phase") in ("complete", "failed") and status["ready"] == self.replicas
        return serving and said

    def until_complete(self, version: str) -> None:
        self.until(lambda: self.complete(version), f"all replicas are of {version}")

    def until(self, condition: Any, what: str) -> None:
        def told() -> str:
            service = self.service()
            return f"{what}: {service.get('status')} {service.get('replicas')} {self.lives.versions()}"

        def found() -> Any:
            assert self.process.poll() is None, self.log.read_text()
            return condition()

        until(found, told)

    def close(self) -> None:
        try:
            if self.process is not None:
                self.process.send_signal(signal.SIGTERM)
                self.process.wait(PATIENCE)
            self.ground.tidy(self.repo)
        finally:
            self.lives.close()


def new_service_lab(ground: ServiceGround, repo: Repo, replicas: int) -> ServiceLab:
    """With the service's first version, `v1`, among the documents; nothing is served yet."""
    made = repo.ok("token", "ada", "--role", "admin", "--format", "json").json
    repo.write(".access.yaml", yaml.safe_dump({"tokens": [made["line"]]}))
    lives = Lives(ground.receiver())
    lab = ServiceLab(ground, repo, made["token"], free_port(), free_port(), replicas, lives)
    url = f"http://*.apps.example:{lab.apps}"
    proxy = {"apiVersion": "bai/v1", "kind": "AppProxy", "metadata": {"name": "apps"}, "spec": {"url": url}}
    repo.write("apps.yaml", yaml.safe_dump(proxy))
    lab.write("v1")
    return lab


@contextmanager
def service_lab(ground: ServiceGround, replicas: int) -> Iterator[ServiceLab]:
    """With the service's first version, `v1`, which is complete."""
    with tempfile.TemporaryDirectory(prefix="bai-t-") as folder:
        lab = new_service_lab(ground, ground.repo(Path(folder)), replicas)
        try:
            lab.serve()
            lab.until_complete("v1")
            yield lab
        finally:
            lab.close()
