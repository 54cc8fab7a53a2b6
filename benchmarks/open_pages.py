"""What two hundred open pages cost a server: of a cluster of 1,250 nodes, where each pass brings news.

    python -m benchmarks.open_pages [--pages 200] [--nodes 1250] [--sessions 1000] [--json result.json]

Each page has a stream of news open and asks for itself again after each of them, as `panel.js` does, in
another process than the server's: viewers of all projects, on the cluster, its queue, nodes, sessions and
single sessions. One session is added before each pass. CPU seconds of the server's process for one pass
without and with the pages, and what they make of a core where every pass has news, each 30 seconds.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn

from bai.cli.main import start_lightly
from bai.web.app import create_app
from bai.web.auth.roles import AnonymousAuthenticator, Role, StaticAccess
from bai.web.cluster_loops import ClusterLoops
from bai.web.connection_limits import ConnectionLimits
from bai.web.http_protocol import ServerConfig
from benchmarks.loop import Bench
from benchmarks.results import parser_of, show

PASSES = 8
INTERVAL = 30.0
"""Seconds between two passes of `bai serve`, where nothing happens."""
DELAY = 0.3
"""Seconds from news to asking, in `frame.html`."""
LOOKED_AT = ("", "", "", "", "queue", "queue", "sessions", "nodes/dgx-0007", "plan", "sessions/p/s{number}")
"""Below the cluster, page by page; the last one is another one for each who looks."""
QUIET = 1.0
"""Seconds after which a pass has cost what it costs."""


class OpenPage:
    """A page that is open in a browser."""

    def __init__(self, host: str, port: int, path: str) -> None:
        self._host, self._port, self.path = host, port, path
        self._tag = ""
        self.asked = 0

    async def ask(self) -> None:
        """For itself, as it is now."""
        head = f"HX-Request: true\r\nIf-None-Match: {self._tag}\r\n" if self._tag else "HX-Request: true\r\n"
        reader, writer = await self._request(self.path, f"{head}Connection: close\r\n")
        answer = await reader.read()
        writer.close()
        lines = answer.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")
        assert lines[0].split()[1] in ("200", "304"), lines[0]
        tags = [line[5:].strip() for line in lines if line.lower().startswith("etag:")]
        self._tag = tags[0] if tags else ""
        self.asked += 1

    async def stay(self) -> None:
        """Asks again after each news, and once because it does not say what it knows."""
        await self.ask()
        reader, _ = await self._request("/clusters/here/live", "Accept: text/event-stream\r\n")
        while line := await reader.readline():
            if line.startswith(b"event: changed"):
                await asyncio.sleep(DELAY)
                await self.ask()

    async def _request(self, path: str, head: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(self._host, self._port)
        writer.write(
            f"GET {path} HTTP/1.1\r\nHost: {self._host}\r\nAccept-Encoding: gzip\r\n{head}\r\n".encode()
        )
        await writer.drain()
        return reader, writer


async def look(address: str, count: int, sessions: int) -> None:
    """`count` pages, for ever; prints how often all of them have asked, whenever that grows."""
    host, _, port = address.rpartition(":")
    chance = random.Random(7)
    paths = [LOOKED_AT[n % len(LOOKED_AT)].format(number=chance.randrange(sessions)) for n in range(count)]
    pages = [OpenPage(host, int(port), f"/clusters/here/{path}".rstrip("/")) for path in paths]
    tasks = [asyncio.create_task(page.stay()) for page in pages]
    told = 0
    while True:
        await asyncio.sleep(0.05)
        for task in tasks:
            if task.done():
                task.result()
                raise ConnectionError("the server ends a stream")
        if (now := min(page.asked for page in pages)) > told:
            told = now
            print(told, flush=True)


@contextmanager
def served(bench: Bench, connections: int) -> Iterator[str]:
    """The address."""
    loops = ClusterLoops()
    loops.add(bench.loop)
    bench.once()
    app = create_app(loops, StaticAccess([AnonymousAuthenticator(Role.viewer)]))
    with socket.create_server(("127.0.0.1", 0), backlog=2048) as listening:
        limits = ConnectionLimits(connections, connections)
        server = uvicorn.Server(ServerConfig(app, limits, lifespan="off", timeout_graceful_shutdown=1))
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        try:
            yield f"127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


@contextmanager
def looked_at(address: str, pages: int, sessions: int) -> Iterator[subprocess.Popen[str]]:
    words = [sys.executable, "-m", "benchmarks.open_pages", "--look", address]
    process = subprocess.Popen(
        [*words, "--pages", str(pages), "--sessions", str(sessions)], stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def cost(bench: Bench, number: int, watchers: subprocess.Popen[str] | None = None) -> float:
    """CPU seconds of this process for a pass with news, until all have seen it."""
    before = time.process_time()
    bench.add(f"more{number}")
    if watchers is not None:
        assert watchers.stdout is not None and watchers.stdout.readline(), "who looks is gone"
    time.sleep(QUIET)
    return time.process_time() - before


def measure(pages: int, nodes: int, sessions: int, root: Path) -> dict[str, Any]:
    bench = Bench(root, nodes, sessions)
    with served(bench, 3 * pages + 50) as address:
        alone = [cost(bench, number) for number in range(PASSES)]
        with looked_at(address, pages, sessions) as watchers:
            assert watchers.stdout is not None
            for _ in range(2):
                assert watchers.stdout.readline(), "nobody looks"
            cost(bench, PASSES, watchers)
            watched = [cost(bench, PASSES + 1 + number, watchers) for number in range(PASSES)]
            silent = time.process_time()
            time.sleep(10)
            silent = time.process_time() - silent
    bench.loop.workspace.close()
    more = statistics.median(watched) - statistics.median(alone)
    return {
        "pages": pages, "nodes": nodes, "sessions": sessions,
        "CPU s of a pass with news": round(statistics.median(alone), 3),
        "the same with the pages open": round(statistics.median(watched), 3),
        "CPU ms of a page for each news": round(1000 * more / pages, 2),
        f"% of a core for pages with news every {INTERVAL:.0f} s": round(100 * more / INTERVAL, 2),
        "% of a core for pages without news": round(100 * silent / 10, 2),
        "load": os.getloadavg()[0],
    }  # fmt: skip


def main() -> None:
    parser = parser_of("open_pages", __doc__)
    parser.add_argument("--pages", type=int, default=200)
    parser.add_argument("--nodes", type=int, default=1250)
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--look", metavar="ADDRESS", help="only be the pages, of the server there")
    given = parser.parse_args()
    if given.look:
        asyncio.run(look(given.look, given.pages, given.sessions))
        return
    start_lightly()  # as every `bai` does
    with tempfile.TemporaryDirectory(prefix="bai-open-pages-") as folder:
        found = measure(given.pages, given.nodes, given.sessions, Path(folder))
    show(found, given.json)


if __name__ == "__main__":
    main()
