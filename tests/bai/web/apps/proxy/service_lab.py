"""Replicas that are real servers on the loopback, behind a balancer, a gate that lets all pass and the real
Caddy; and load on them.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import itertools
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bai.web.apps.proxy.balancer import Balancer, Replica
from providers.machines.base import Stream
from tests.bai.web.apps.app_lab import HOST, Answer, AppLab, Gate, app_lab, dial_loopback
from tests.waiting import until

SERVICE = "c/Service/p/web"
LONG = 600.0
PORT = 80
"""As the document has it; each replica has one of its own."""


class ReplicaServer:
    """Answers with its name, once for each connection. `/slow` waits for `go_on`; `/dies` ends without an
    answer."""

    def __init__(self, world: ReplicaWorld, name: str) -> None:
        self.name, self._world = name, world
        self.requests: list[str] = []
        self.under_way = 0
        self.go_on = threading.Event()
        self._writers: set[asyncio.StreamWriter] = set()
        self._server = world.run(asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=512))
        self.port: int = self._server.sockets[0].getsockname()[1]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        self.under_way += 1
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            method, path, _ = head.partition("\r\n")[0].split(" ")
            fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if line)
            body = await reader.readexactly(int(fields.get("content-length", 0)))
            self.requests.append(f"{method} {path}")
            if path == "/dies":
                return
            while path == "/slow" and not self.go_on.is_set():
                await asyncio.sleep(0.005)
            text = f"{self.name} {len(body)} {fields.get('connection', '')}".encode()
            writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(text))
            writer.write(b"" if method == "HEAD" else text)
            await writer.drain()
        except (OSError, EOFError, ValueError):
            pass
        finally:
            self.under_way -= 1
            self._writers.discard(writer)
            writer.close()

    def kill(self) -> int:
        """Cuts what is open; gives how many requests were under way."""

        async def end() -> int:
            self._server.close()
            hit = self.under_way
            for writer in list(self._writers):
                writer.transport.abort()
            return hit

        return int(self._world.run(end()))


@dataclass
class ReplicaWorld:
    """Servers by name, on a loop of their own. `place_of` those without a server: never accepted."""

    servers: dict[str, ReplicaServer] = field(default_factory=dict)
    dials: list[str] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)
    deaf: set[str] = field(default_factory=set)
    over: threading.Event = field(default_factory=threading.Event)
    ports: dict[str, int] = field(default_factory=dict)
    """Of servers that are others'."""

    def __post_init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, what: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(60)

    def start(self, name: str) -> ReplicaServer:
        made = self.servers[name] = ReplicaServer(self, name)
        return made

    def dial(self, place: str, port: int) -> Stream:
        name = place.partition("/")[2]
        self.dials.append(name)
        if name in self.deaf:
            self.over.wait(60)
            raise ConnectionResetError("at last")
        if name in self.refused:
            raise ConnectionRefusedError("nobody there")
        return dial_loopback(name, port)

    def replica(self, name: str, generation: str = "g", weight: float = 1.0) -> Replica:
        def listening(port: int) -> int:
            assert port == PORT
            return self.ports.get(name) or self.servers[name].port

        return Replica(f"c/{name}", generation, weight, listening, lambda: True)

    def close(self) -> None:
        self.over.set()
        for each in self.servers.values():
            each.go_on.set()
            each.kill()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@dataclass
class ServiceGate(Gate):
    hold: float = 0.0

    def _decide(self, path: str, headers: dict[str, str], query: str) -> Answer:
        assert self.tunnels is not None
        if path == "/unanswered":
            return 503, {}, b"no replica answers"
        upstream = self.tunnels.service_address(SERVICE, PORT, self.hold)
        protocol = {"Bai-Protocol": self.protocol} if self.protocol else {}
        return 200, {"Bai-Upstream": upstream, "Bai-Balanced": "yes", **protocol}, b""


@dataclass
class ServiceLab:
    world: ReplicaWorld
    apps: AppLab

    @property
    def balancer(self) -> Balancer:
        return self.apps.proxy.tunnels.balancer

    def use(self, *replicas: Replica | str) -> None:
        """These are the service's from now on."""
        them = [self.world.replica(each) if isinstance(each, str) else each for each in replicas]
        self.balancer.update("c", {SERVICE: them})

    def start(self, *names: str) -> list[ReplicaServer]:
        found = [self.world.start(name) for name in names]
        self.use(*names)
        return found

    def who(self, path: str = "/", method: str = "GET", **options: Any) -> str:
        answer = self.apps.ask(method, path, **options)
        assert answer.status_code == 200, answer.text
        return answer.text.split(" ")[0]

    def in_turn(self, requests: int, *, beside: int = 0) -> Counter[str]:
        """Who answers, where each request comes when the one before is over; `beside`: those under way
        meanwhile."""
        found: Counter[str] = Counter()
        for _ in range(requests):
            found[self.who()] += 1
            self.settles(beside)
        return found

    def settles(self, left: int = 0) -> None:
        """No more are under way: who asked has an answer before the end of its connection is known."""
        until(lambda: self.balancer.requests(SERVICE).in_flight == left, f"{left} are under way")

    def drained(self, name: str, grace: float, stop: threading.Event | None = None) -> Draining:
        return Draining(self.balancer, name, grace, stop or threading.Event())


class Draining:
    """One in a thread of its own."""

    def __init__(self, balancer: Balancer, name: str, grace: float, stop: threading.Event) -> None:
        self.told: list[int] = []
        self.left: int | None = None
        self.has = 0.0
        self.stop = stop

        def run() -> None:
            self.has = balancer.drain(f"c/{name}", grace, LONG, self.told.append, stop)
            self.left = balancer.connections(f"c/{name}")

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()

    @property
    def over(self) -> bool:
        return not self._thread.is_alive()


@contextlib.contextmanager
def service_lab(storage: Path) -> Iterator[ServiceLab]:
    world = ReplicaWorld()
    try:
        with app_lab(storage, dial=world.dial, gate=ServiceGate(1)) as apps:
            yield ServiceLab(world, apps)
    finally:
        world.close()


class Load:
    """Clients that ask again and again, each on a connection of its own to Caddy, until it is over."""

    def __init__(self, port: int, clients: int, methods: Sequence[str] = ("GET",), path: str = "/") -> None:
        self.failed: list[str] = []
        self.answers: list[str] = []
        self._over = threading.Event()
        self._port, self._path = port, path
        self._threads = [
            threading.Thread(target=self._ask, args=(methods[number % len(methods)],), daemon=True)
            for number in range(clients)
        ]
        for each in self._threads:
            each.start()

    def _ask(self, method: str) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        for number in itertools.count():
            if self._over.is_set():
                break
            body = b"x" * 1000 if method == "POST" else None
            try:
                connection.request(method, f"{self._path}?{number}", body, {"Host": HOST})
                answer = connection.getresponse()
                text = answer.read().decode()
            except (OSError, http.client.HTTPException) as error:
                self.failed.append(f"{method} {error!r}")
                connection.close()
                continue
            if answer.status == 200:
                self.answers.append(text.split(" ")[0])
            else:
                self.failed.append(f"{method} {answer.status} {text}")
        connection.close()

    def goes_on(self, requests: int = 20) -> None:
        """So many more have been answered."""
        wanted = len(self.answers) + requests
        until(lambda: len(self.answers) >= wanted, "requests are answered")

    def end(self) -> None:
        self._over.set()
        for each in self._threads:
            each.join(60)


@contextlib.contextmanager
def load(lab: ServiceLab, clients: int = 8, methods: Sequence[str] = ("GET",)) -> Iterator[Load]:
    made = Load(lab.apps.port, clients, methods)
    try:
        yield made
    finally:
        made.end()


_PROGRAM = """
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Handler(BaseHTTPRequestHandler):
    wbufsize = -1  # Killed, it has sent a whole answer or nothing of it.

    def do_GET(self):
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(200)
        self.send_header("content-length", "8")
        self.end_headers()
        self.wfile.write(b"process " if self.command != "HEAD" else b"")

    do_HEAD = do_POST = do_GET

    def log_message(self, *said):
        pass

server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""


@contextlib.contextmanager
def process(lab: ServiceLab, name: str) -> Iterator[subprocess.Popen[str]]:
    """A replica that is a process of its own."""
    command = [sys.executable, "-c", _PROGRAM]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as made:
        assert made.stdout is not None
        try:
            lab.world.ports[name] = int(made.stdout.readline())
            yield made
        finally:
            made.kill()


def in_background(do: Callable[[], Any]) -> list[Any]:
    """What it gives stands in the list when it is there; what it raises, too."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(do())
        except BaseException as error:
            found.append(error)

    threading.Thread(target=run, daemon=True).start()
    return found
