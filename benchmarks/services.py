"""What a service costs and how fast it follows: four replicas behind the proxy of `bai serve`, with native
processes and the real Caddy, and what becomes of requests meanwhile. With `--provider docker` they are
containers on three Docker nodes of this machine, each reached by SSH, and the ways are left out (root).

    python -m benchmarks.services --seconds 5 --connections 16 --json result.json

- ways: requests per second and latencies of one replica asked directly, of the four through a Caddy that is
  configured by hand (`least_conn`, connections kept), and of the same four through `bai serve`, which asks
  for each request who it is and dials a replica for each; one way after the other, several rounds.
- updates: from a commit that changes the template, before its push, to the first answer of a replica of the
  new generation, and to the end of the rollout, while requests go on: how many of them failed.
- scaling: from the first request to a service of no replicas to its answer; from a step of load to the first
  answer of a second replica, and of as many as the load needs.

`--seconds` and `--connections` bound the load; all of it stays on this machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import platform
import re
import socket
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import requests

from bai.web.apps.proxy.engine import find_engine
from benchmarks.apps import Load, caddy_of_upstreams, measure, middle
from benchmarks.results import keep, parser_of, spread
from benchmarks.served import Site, served
from tests.harness.ports import free_port
from tests.integration.service_grounds import ProcessGround, ServiceGround, service_ground
from tests.lab.serve import TOKEN

REPLICAS = 4
DOMAIN = "apps.example"
PATIENCE = 120.0
SLOW = 0.25
"""Seconds that an answer takes where a load is to stay in flight."""
IN_FLIGHT = 4
"""Requests at a time that one replica is for."""
PROXY = """\
apiVersion: bai/v1
kind: AppProxy
metadata: {{name: apps}}
spec: {{url: "http://*.{domain}:{port}"}}
"""
SERVICE = """\
apiVersion: bai/v1
kind: Service
metadata: {{name: {name}, project: demo}}
spec:
  replicas: {replicas}
  template:
    resources: {{memory: 64MiB}}
    {image}
    command: {command}
    env: {{VERSION: "{version}", LISTEN: "{listen}"}}
    ports: [{{name: web, port: {port}}}]
    apps: {{web: {{access: project}}}}
  readiness: {{http: {{port: web}}, period: 1s}}
  {more}
"""
SCALED = f"autoscaling: {{min: 0, max: {REPLICAS}, inFlight: {IN_FLIGHT}}}"
REPLICA = """
import asyncio, os, signal
ME = os.environ["BACKENDAI_SESSION_NAME"]
PORT, VERSION = int(os.environ["BAI_PORT_WEB"]), os.environ["VERSION"]
HEAD = f"HTTP/1.1 200 OK\\r\\nX-Replica: {ME}\\r\\nX-Version: {VERSION}\\r\\nX-Port: {PORT}\\r\\n"
ANSWER = (HEAD + "Content-Length: 1024\\r\\n\\r\\n").encode() + b"x" * 1024

class Replica(asyncio.Protocol):
    open = 0
    def connection_made(self, transport):
        self.transport, self.held = transport, b""
        Replica.open += 1
    def connection_lost(self, error):
        Replica.open -= 1
    def data_received(self, data):
        self.held += data
        *whole, self.held = self.held.split(b"\\r\\n\\r\\n")
        for head in whole:
            if b" /slow " in head:
                asyncio.get_running_loop().call_later(SLOW, self.transport.write, ANSWER)
            else:
                self.transport.write(ANSWER)

async def main():
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    server = await loop.create_server(Replica, os.environ["LISTEN"], PORT, backlog=512)
    await ended.wait()
    server.close()
    while Replica.open:
        await asyncio.sleep(0.01)

asyncio.run(main())
""".replace("SLOW", str(SLOW))


@dataclass(slots=True)
class Answers:
    """What a load has heard: moments, versions and replicas of what was answered well; `failed`: what else
    there was, in words."""

    heard: list[tuple[float, str, str]] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def first(self, version: str) -> float | None:
        return next((at for at, found, _ in self.heard if found == version), None)

    def moment_of(self, replicas: int) -> float | None:
        """When so many different ones had answered."""
        seen: set[str] = set()
        for at, _, replica in self.heard:
            seen.add(replica)
            if len(seen) >= replicas:
                return at
        return None


def head_of(name: str, port: int) -> tuple[str, ...]:
    return (f"Host: web--{name}--demo.{DOMAIN}:{port}", f"Authorization: Bearer {TOKEN}")


class Asker:
    """Connections that ask one service again and again, from `begin` on until `end`."""

    def __init__(self, port: int, name: str, connections: int, path: str = "/", pause: float = 0.0) -> None:
        lines = "\r\n".join([f"GET {path} HTTP/1.1", *head_of(name, port), "", ""])
        self.answers = Answers()
        self._port, self._request, self._pause = port, lines.encode(), pause
        self._connections = connections
        self._ended = False

    async def __aenter__(self) -> Asker:
        self._tasks = [asyncio.create_task(self._ask()) for _ in range(self._connections)]
        return self

    async def __aexit__(self, *error: object) -> None:
        self._ended = True
        await asyncio.gather(*self._tasks)

    async def _ask(self) -> None:
        while not self._ended:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
                try:
                    while not self._ended:
                        await asyncio.wait_for(self._one(reader, writer), PATIENCE)
                        await asyncio.sleep(self._pause)
                finally:
                    writer.close()
            except (OSError, EOFError, TimeoutError, ValueError) as error:
                self.answers.failed.append(f"{type(error).__name__}: {error}"[:200])
                await asyncio.sleep(0.05)

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(self._request)
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        if not head.startswith("HTTP/1.1 200"):
            raise ValueError(head.split("\r\n", 1)[0])
        await reader.readexactly(1024)
        self.answers.heard.append(
            (time.perf_counter(), _header(head, "X-Version"), _header(head, "X-Replica"))
        )


def _header(head: str, name: str) -> str:
    found = re.search(rf"^{name}: (.*?)\r$", head, re.M | re.I)
    return found[1] if found else ""


class Bench:
    """A cluster on this machine, with a service of `REPLICAS` replicas, that `bai serve` follows and whose
    apps are at `port`."""

    def __init__(self, site: Site, port: int, ground: ServiceGround) -> None:
        self.site, self.port, self._ground = site, port, ground
        self._first = free_port()

    def write(self, name: str, version: str, *, replicas: int = REPLICAS, more: str = "") -> None:
        command = json.dumps(["python3", "-c", REPLICA])
        image = self._ground.template().get("image")
        text = SERVICE.format(
            name=name, version=version, replicas=replicas, command=command, port=self._first, more=more,
            listen=self._ground.listen, image=f"image: {image}" if image else "",
        )  # fmt: skip
        self.site.work.commit(name, text)
        self.site.work.push()

    def service(self, name: str) -> dict[str, Any]:
        """As the API has it; empty as long as it has none."""
        path = f"{self.site.server.url}/api/v1/clusters/here/resources/Service/demo/{name}"
        answer = requests.get(path, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60)
        found: dict[str, Any] = answer.json() if answer.ok else {}
        return found

    def complete(self, name: str, before: str = "") -> bool:
        """Whether a generation that is not `before` has taken over, and nothing of others is left."""
        found = self.service(name)
        status, replicas = found.get("status"), found.get("replicas") or []
        return (
            status is not None
            and status["phase"] == "complete"
            and status["latest"] != before
            and all(each["generation"] == status["latest"] for each in replicas)
        )

    async def until(self, condition: Any, what: str) -> float:
        """The moment at which it holds; asked 20 times a second, in a thread of its own."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if await asyncio.to_thread(condition):
                return time.perf_counter()
            await asyncio.sleep(0.05)
        there = json.dumps({name: self.service(name).get("replicas") for name in ("web", "scaled")})
        raise SystemExit(f"still not: {what}\n{there}\n{self.site.server.said()[-2000:]}")


@contextlib.contextmanager
def bench(root: Path, ground: ServiceGround) -> Iterator[Bench]:
    port = free_port()
    apps = ("--apps-listen", f"127.0.0.1:{port}", "--apps-tls", "off")
    cluster = "" if isinstance(ground, ProcessGround) else ground.cluster()
    with served(root, interval="1h", options=apps, environment=ground.environment, cluster=cluster) as site:
        site.set_hook(site.server.hook)
        site.work.commit("apps", PROXY.format(domain=DOMAIN, port=port))
        made = Bench(site, port, ground)
        try:
            made.write("web", "v0")
            asyncio.run(made.until(lambda: made.complete("web"), "the service is complete"))
            yield made
        finally:
            for path in site.work.folder.glob("*.yaml"):
                if "kind: Service" in path.read_text():
                    path.unlink()
            site.empty()


async def ports_of_replicas(bench: Bench) -> list[int]:
    """Asked of the replicas themselves, through the proxy."""
    found: set[int] = set()
    end = time.monotonic() + PATIENCE
    while len(found) < REPLICAS and time.monotonic() < end:
        reader, writer = await asyncio.open_connection("127.0.0.1", bench.port)
        writer.write("\r\n".join(["GET / HTTP/1.1", *head_of("web", bench.port), "", ""]).encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        writer.close()
        if head.startswith("HTTP/1.1 200"):
            found.add(int(_header(head, "X-Port")))
        elif found or time.monotonic() >= end - 1:
            raise SystemExit(head)
        await asyncio.sleep(0 if found else 0.1)  # The proxy is begun anew when it hears of its first URL.
    return sorted(found)


def measure_ways(
    bench: Bench, folder: Path, rounds: int, connections: int, seconds: float
) -> dict[str, Load]:
    replicas = asyncio.run(ports_of_replicas(bench))
    with contextlib.ExitStack() as stack:
        by_hand = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=512))
        ways = {
            "one replica directly": replicas[0],
            "Caddy configured by hand": stack.enter_context(caddy_of_upstreams(replicas, by_hand, folder)),
            "bai serve": bench.port,
        }
        loads: dict[str, list[Load]] = {name: [] for name in ways}
        for at in ways.values():
            measure(at, connections, 1, head_of("web", bench.port))
        for _ in range(rounds):
            for name, at in ways.items():
                loads[name].append(measure(at, connections, seconds, head_of("web", bench.port)))
    return {name: middle(found) for name, found in loads.items()}


async def measure_update(bench: Bench, version: str) -> dict[str, float]:
    before = bench.service("web")["status"]["latest"]
    async with Asker(bench.port, "web", connections=4, pause=0.01) as asker:
        await asyncio.sleep(0.5)
        begin = time.perf_counter()
        await asyncio.to_thread(bench.write, "web", version)
        ended = await bench.until(lambda: bench.complete("web", before), f"{version} is complete")
        await asyncio.sleep(0.5)
    answers = asker.answers
    first = answers.first(version)
    if first is None:
        raise SystemExit(f"nothing of {version} has answered: {answers.failed[:3]}")
    for each in answers.failed[:5]:
        print(f"failed: {each}", file=sys.stderr)
    return {
        "first_s": first - begin, "end_s": ended - begin,
        "requests": len(answers.heard), "failed": len(answers.failed),
    }  # fmt: skip


async def measure_scaling(bench: Bench, name: str) -> dict[str, float]:
    await asyncio.to_thread(bench.write, name, "v0", replicas=0, more=SCALED)
    await bench.until(lambda: bench.complete(name), f"{name} is there")
    begin = time.perf_counter()
    async with Asker(bench.port, name, connections=1) as asker:
        await bench.until(lambda: asker.answers.heard or asker.answers.failed, "an answer")
    answers = asker.answers
    if answers.failed:
        raise SystemExit(f"the first request to {name} failed: {answers.failed[0]}")
    from_zero = answers.heard[0][0] - begin
    begin = time.perf_counter()
    async with Asker(bench.port, name, connections=REPLICAS * IN_FLIGHT, path="/slow") as asker:
        await bench.until(lambda: asker.answers.moment_of(REPLICAS), f"{REPLICAS} replicas of {name} answer")
    second, last = asker.answers.moment_of(2), asker.answers.moment_of(REPLICAS)
    assert second is not None and last is not None
    return {
        "from_zero_s": from_zero, "second_replica_s": second - begin, "all_replicas_s": last - begin,
        "failed": len(asker.answers.failed),
    }  # fmt: skip


def print_ways(loads: dict[str, Load], what: str) -> None:
    base = loads["Caddy configured by hand"]
    print(what)
    print(f"{'':<28}{'req/s':>9}{'p50 ms':>9}{'p99 ms':>9}   of Caddy  p50 x    p99 x")
    for name, found in loads.items():
        share = f"{found.rate / base.rate:9.2f} {found.p50 / base.p50:8.2f} {found.p99 / base.p99:8.2f}"
        print(f"{name:<28}{found.rate:>9.0f}{found.p50:>9.2f}{found.p99:>9.2f}   {share}")


def print_times(rows: Sequence[tuple[str, dict[str, float]]]) -> None:
    print(f"\n{'seconds':<52}{'median':>9}{'max':>9}")
    for name, found in rows:
        print(f"{name:<52}{found['median']:>9.2f}{found['max']:>9.2f}")


def main() -> None:
    parser = parser_of("services", __doc__)
    parser.add_argument("--seconds", type=float, default=5, help="of each round")
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3, help="of each way")
    parser.add_argument("--updates", type=int, default=3, help="changes of the document")
    parser.add_argument("--scaled", type=int, default=3, help="services that begin without a replica")
    parser.add_argument("--provider", choices=["process", "docker"], default="process")
    options = parser.parse_args()
    find_engine(None)
    load, ways = os.getloadavg()[0], dict[str, Load]()
    with (
        tempfile.TemporaryDirectory(prefix="bai-svc-") as name,
        service_ground(options.provider, Path(name)) as ground,
        bench(Path(name), ground) as made,
    ):
        if options.provider == "process":
            ways = measure_ways(made, Path(name), options.rounds, options.connections, options.seconds)
        updates = [asyncio.run(measure_update(made, f"v{at}")) for at in range(1, options.updates + 1)]
        scaled = [asyncio.run(measure_scaling(made, f"burst{at}")) for at in range(options.scaled)]
    times = {
        **{f"update_{key}": spread([each[key] for each in updates]) for key in ("first_s", "end_s")},
        **{
            f"scaling_{key}": spread([each[key] for each in scaled])
            for key in ("from_zero_s", "second_replica_s", "all_replicas_s")
        },
    }
    asked = int(sum(each["requests"] for each in updates))
    failed = int(sum(each["failed"] for each in [*updates, *scaled]))
    machine = {
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        "load": [load, os.getloadavg()[0]],
    }
    print(f"machine load {load:.1f} at the beginning, {os.getloadavg()[0]:.1f} at the end")
    if ways:
        print_ways(
            ways,
            f"{REPLICAS} replicas, {options.connections} connections, {options.rounds} rounds of "
            f"{options.seconds:g} s each, medians",
        )
    print_times(
        [
            ("a commit: until the new generation answers first", times["update_first_s"]),
            (f"a commit: until all {REPLICAS} replicas are of it", times["update_end_s"]),
            ("no replica: until the first request is answered", times["scaling_from_zero_s"]),
            ("a step of load: until a second replica answers", times["scaling_second_replica_s"]),
            (f"a step of load: until {REPLICAS} replicas answer", times["scaling_all_replicas_s"]),
        ]
    )
    print(f"\nrequests in updates: {asked}; failed requests: {failed}")
    found = {"ways": {name: asdict(each) for name, each in ways.items()}, "times": times}
    keep({**found, "requests": asked, "failed": failed, "machine": machine}, options.json)


if __name__ == "__main__":
    main()
