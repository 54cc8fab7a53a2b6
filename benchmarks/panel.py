"""What pages cost a server: of a cluster of 1,250 nodes and 10,000 sessions.

    python -m benchmarks.panel [NODES SESSIONS]

Milliseconds of a page that nobody has asked for since the last pass, of one that is kept, and of one that the
browser has already; bytes as they travel.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from fastapi.testclient import TestClient

from bai.web.app import create_app
from bai.web.auth.roles import AnonymousAuthenticator, Role, StaticAccess
from bai.web.cluster_loops import ClusterLoops
from benchmarks.loop import Bench

PAGES = (
    "", "nodes", "nodes/dgx-0007", "queue", "sessions", "sessions?q=s99&sort=gpus", "sessions/p/s1",
    "sessions/p/s1/terminal", "plan", "history", "events", "audit", "usage", "capacity", "resources", "resources?kind=Session",
)  # fmt: skip
ASKS = {"HX-Request": "true", "Accept-Encoding": "gzip"}


def milliseconds(client: TestClient, address: str, headers: dict[str, str]) -> tuple[float, int, str]:
    began = time.perf_counter()
    answer = client.get(address, headers=headers)
    taken = 1000 * (time.perf_counter() - began)
    assert answer.status_code in (200, 304), (address, answer.status_code, answer.text[:300])
    return taken, answer.num_bytes_downloaded, answer.headers.get("etag", "")


def main(nodes: int = 1250, sessions: int = 10_000) -> None:
    with tempfile.TemporaryDirectory() as folder:
        bench, loops = Bench(Path(folder), nodes, sessions), ClusterLoops()
        loops.add(bench.loop)
        for _ in range(3):
            bench.once()
        app = create_app(loops, StaticAccess([AnonymousAuthenticator(Role.operator)]))
        with TestClient(app) as client:
            print(f"{nodes} nodes, {sessions} sessions   first ms  kept ms   304 ms     bytes")
            for page in PAGES:
                address = f"/clusters/here/{page}".rstrip("/")
                first, size, tag = milliseconds(client, address, ASKS)
                kept = min(milliseconds(client, address, ASKS)[0] for _ in range(5))
                same = min(milliseconds(client, address, {**ASKS, "If-None-Match": tag})[0] for _ in range(5))
                print(f"{page or 'cluster':28} {first:9.0f} {kept:8.1f} {same:8.1f} {size:9,}")
        bench.loop.workspace.close()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
