"""What pages cost a server: of a cluster of 1,250 nodes and 10,000 sessions.

    python -m benchmarks.panel [NODES SESSIONS]

Milliseconds of CPU time of a page that nobody has asked for since the last pass, of one that is kept, and of
one that the browser has already, with what asks for it in the same process; bytes as they travel. Then, where
Chromium is, how long the first page takes until it hears keys and clicks, with an empty cache.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from fastapi import FastAPI
from fastapi.testclient import TestClient

from bai.web.app import create_app
from bai.web.auth.roles import AnonymousAuthenticator, Role, StaticAccess
from bai.web.cluster_loops import ClusterLoops
from benchmarks.loop import Bench
from tests.lab.browser import Chromium
from tests.lab.cache import LabUnavailable

PAGES = (
    "", "nodes", "nodes/dgx-0007", "queue", "sessions", "sessions?q=s99&sort=gpus", "sessions/p/s1", "plan",
    "history", "events", "audit", "usage", "capacity", "resources", "resources?kind=Session",
)  # fmt: skip
ASKS = {"HX-Request": "true", "Accept-Encoding": "gzip"}


def milliseconds(client: TestClient, address: str, headers: dict[str, str]) -> tuple[float, int, str]:
    began = time.process_time()
    answer = client.get(address, headers=headers)
    taken = 1000 * (time.process_time() - began)
    assert answer.status_code in (200, 304), (address, answer.status_code, answer.text[:300])
    return taken, answer.num_bytes_downloaded, answer.headers.get("etag", "")


def interactive_ms(app: FastAPI) -> list[float]:
    """Of five browsers that have never been here, from when somebody asks for the page. Raises
    LabUnavailable."""
    from tests.bai.web.lab import serving

    browser = Chromium()
    try:
        with serving(app, browser.listening()) as address:
            return sorted(_first_visit(browser, f"{address}/clusters/here") for _ in range(5))
    finally:
        browser.close()


def _first_visit(browser: Chromium, address: str) -> float:
    page = browser.page()
    page.goto(address)
    taken = float(page.evaluate("performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd"))
    page.context.close()
    return taken


def main(nodes: int = 1250, sessions: int = 10_000) -> None:
    with tempfile.TemporaryDirectory() as folder:
        bench, loops = Bench(Path(folder), nodes, sessions), ClusterLoops()
        loops.add(bench.loop)
        for _ in range(3):
            bench.once()
        app = create_app(loops, StaticAccess([AnonymousAuthenticator(Role.viewer)]))
        with TestClient(app) as client:
            print(f"{nodes} nodes, {sessions} sessions   first ms  kept ms   304 ms     bytes")
            for page in PAGES:
                address = f"/clusters/here/{page}".rstrip("/")
                first, size, tag = milliseconds(client, address, ASKS)
                kept = min(milliseconds(client, address, ASKS)[0] for _ in range(5))
                same = min(milliseconds(client, address, {**ASKS, "If-None-Match": tag})[0] for _ in range(5))
                print(f"{page or 'cluster':28} {first:9.0f} {kept:8.1f} {same:8.1f} {size:9,}")
        try:
            times = interactive_ms(app)
            print(f"the first page hears keys and clicks after {times[2]:.0f} ms (at most {times[-1]:.0f})")
        except LabUnavailable as error:
            print(f"the first page in a browser: {error}")
        bench.loop.workspace.close()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
