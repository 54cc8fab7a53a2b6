"""What the way to an app by URL costs: the same small app asked directly, through a Caddy configured by hand,
and through that of `bai serve`, which asks a gate for each request and reaches the app by a tunnel; two such
apps as a service, balanced, with a connection for each request; and by a node's proxy, over SSH.

    python -m benchmarks.apps --seconds 5 --connections 16

prints requests per second, latencies and their ratios, one way after the other, several rounds. The gate of
this benchmark lets everybody pass, so that the way is measured; `--without-tunnel` lets Caddy dial the app.
Takes `wrk`, or a load generator in Python that needs more of the machine for itself.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bai.web.apps.proxy.app_proxy import AppProxyServer, AppProxySettings
from bai.web.apps.proxy.balancer import Replica
from bai.web.apps.proxy.engine import find_engine
from bai.web.apps.proxy.event_loop import new_event_loop
from bai.web.apps.proxy.tunnels import Tunnels
from benchmarks.node_way import node_way
from benchmarks.results import keep, parser_of

HOST = "app.apps.example"
SERVICE = "c/Service/p/web"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1024\r\n\r\n" + b"x" * 1024
UNITS = {"us": 1e-3, "ms": 1.0, "s": 1e3}


@dataclass(frozen=True, slots=True)
class Load:
    """What one round of one way gave; latencies in milliseconds."""

    rate: float
    p50: float
    p99: float


class ReplicaProtocol(asyncio.Protocol):
    """Answers each request with the same kilobyte."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._held = b""

    def data_received(self, data: bytes) -> None:
        self._held += data
        whole, end, rest = self._held.rpartition(b"\r\n\r\n")
        if end:
            self._held = rest
            self._transport.write(ANSWER * (whole.count(b"\r\n\r\n") + 1))  # type: ignore[attr-defined]


def run_replica() -> None:
    loop = new_event_loop()
    server = loop.run_until_complete(loop.create_server(ReplicaProtocol, "127.0.0.1", 0))
    print(server.sockets[0].getsockname()[1], flush=True)
    loop.run_forever()


@contextlib.contextmanager
def replica() -> Iterator[int]:
    command = [sys.executable, "-m", "benchmarks.apps", "--replica"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


@contextlib.contextmanager
def caddy_of_upstreams(ports: Sequence[int], listener: socket.socket, folder: Path) -> Iterator[int]:
    """A reverse proxy in one line, as somebody would write it; of several ports it asks the least busy."""
    upstreams = {"upstreams": [{"dial": f"127.0.0.1:{port}"} for port in ports]}
    policy = {"load_balancing": {"selection_policy": {"policy": "least_conn"}}} if len(ports) > 1 else {}
    route = {"handle": [{"handler": "reverse_proxy", **upstreams, **policy}]}
    server = {
        "listen": [f"fd/{listener.fileno()}"],
        "routes": [route],
        "automatic_https": {"disable": True},
        "protocols": ["h1"],
    }
    config = {"admin": {"disabled": True}, "apps": {"http": {"servers": {"s": server}}}}
    (folder / "plain.json").write_text(json.dumps(config))
    command = [str(find_engine(None)), "run", "--config", "plain.json"]
    with subprocess.Popen(
        command,
        cwd=folder,
        pass_fds=[listener.fileno()],
        stderr=subprocess.DEVNULL,
        env={"HOME": str(folder)},
    ) as process:
        try:
            yield listener.getsockname()[1]
        finally:
            process.terminate()


@contextlib.contextmanager
def app_proxy(
    ports: Sequence[int], listener: socket.socket, folder: Path, *, tunnel: bool = True, node: bool = False
) -> Iterator[int]:
    """Of several ports a service is made; with `node` they are reached by a node's proxy."""

    def replica_at(port: int) -> Replica:
        return Replica(f"c/{port}", "g", 1.0, lambda _: port, lambda: True)

    def make_gate(tunnels: Tunnels) -> Any:
        tunnels.balancer.update("c", {SERVICE: [replica_at(port) for port in ports]})
        balanced = [(b"bai-balanced", b"yes")] if len(ports) > 1 else []

        async def gate(scope: Any, receive: Any, send: Any) -> None:
            if balanced:
                dial = tunnels.service_address(SERVICE, 80)
            else:
                dial = tunnels.address("kernel", ports[0]) if tunnel else f"127.0.0.1:{ports[0]}"
            headers = [(b"bai-upstream", dial.encode()), (b"content-length", b"0"), *balanced]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": b""})

        return gate

    def dial(kernel: str, port: int) -> socket.socket:
        return socket.create_connection(("127.0.0.1", port))

    settings = AppProxySettings(None, find_engine(None), folder / "storage")
    own = None if node else listener
    proxy = AppProxyServer(settings, ["http://*.apps.example"], own, make_gate, dial, print)
    proxy.start()
    try:
        if node:
            with node_way(proxy.entry, listener, folder) as port:
                yield port
        else:
            yield listener.getsockname()[1]
    finally:
        proxy.close()


def measure(port: int, connections: int, seconds: float, headers: Sequence[str] = (f"Host: {HOST}",)) -> Load:
    if shutil.which("wrk"):
        return measure_with_wrk(port, connections, seconds, headers)
    times: list[float] = []
    asyncio.run(ask_for_a_while(port, connections, seconds, headers, times))
    times.sort()
    return Load(len(times) / seconds, times[len(times) // 2] * 1e3, times[len(times) * 99 // 100] * 1e3)


def measure_with_wrk(port: int, connections: int, seconds: float, headers: Sequence[str]) -> Load:
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds:.0f}s", "--latency"]
    command += [word for line in headers for word in ("-H", line)]
    said = subprocess.run(
        [*command, f"http://127.0.0.1:{port}/"], capture_output=True, text=True, check=True
    ).stdout
    if "Non-2xx" in said or "Socket errors" in said:
        raise SystemExit(said)
    rate = re.search(r"Requests/sec:\s+([\d.]+)", said)
    latencies = dict(re.findall(r"^\s+(50|99)%\s+([\d.]+(?:us|ms|s))", said, re.M))
    assert rate is not None
    return Load(float(rate[1]), _milliseconds(latencies["50"]), _milliseconds(latencies["99"]))


def _milliseconds(text: str) -> float:
    number = re.match(r"[\d.]+", text)
    assert number is not None
    return float(number[0]) * UNITS[text[number.end() :]]


async def ask_for_a_while(
    port: int, connections: int, seconds: float, headers: Sequence[str], times: list[float]
) -> None:
    request = "\r\n".join(["GET / HTTP/1.1", *headers, "", ""]).encode()
    end = time.perf_counter() + seconds

    async def one() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while (began := time.perf_counter()) < end:
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 200"):
                raise SystemExit(head.decode())
            await reader.readexactly(1024)
            times.append(time.perf_counter() - began)
        writer.close()

    await asyncio.gather(*(one() for _ in range(connections)))


def _line(name: str, loads: list[Load], base: Load) -> str:
    found = middle(loads)
    share = f"{found.rate / base.rate:6.2f} {found.p50 / base.p50:8.2f} {found.p99 / base.p99:8.2f}"
    return f"{name:<28}{found.rate:>9.0f}{found.p50:>9.2f}{found.p99:>9.2f}   {share}"


def middle(loads: list[Load]) -> Load:
    return Load(
        *(statistics.median(getattr(each, name) for each in loads) for name in ("rate", "p50", "p99"))
    )


def main() -> None:
    parser = parser_of("apps", __doc__)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--without-tunnel", action="store_true")
    parser.add_argument("--replica", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.replica:
        run_replica()
        return
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bai-bench-")))
        by_hand, ours, balanced, at_node = (
            stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=512)) for _ in range(4)
        )
        port, other = stack.enter_context(replica()), stack.enter_context(replica())
        proxy = app_proxy([port], ours, folder, tunnel=not options.without_tunnel)
        ways = {
            "directly": port,
            "Caddy configured by hand": stack.enter_context(caddy_of_upstreams([port], by_hand, folder)),
            "bai serve --apps-listen": stack.enter_context(proxy),
            "a service of two replicas": stack.enter_context(app_proxy([port, other], balanced, folder)),
            "by a node": stack.enter_context(app_proxy([port], at_node, folder, node=True)),
        }
        loads: dict[str, list[Load]] = {name: [] for name in ways}
        for at in ways.values():
            measure(at, options.connections, 1)
        for _ in range(options.rounds):
            for name, at in ways.items():
                loads[name].append(measure(at, options.connections, options.seconds))
    base = middle(loads["directly"])
    print(
        f"{options.connections} connections, {options.rounds} rounds of {options.seconds:g} s each, medians"
    )
    print(f"{'':<28}{'req/s':>9}{'p50 ms':>9}{'p99 ms':>9}   of it  p50 x    p99 x")
    for name, found in loads.items():
        print(_line(name, found, base))
    keep({name: asdict(middle(found)) for name, found in loads.items()}, options.json)


if __name__ == "__main__":
    main()
