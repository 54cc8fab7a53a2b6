"""What pages cost a server: of a cluster of 1,250 nodes and 10,000 sessions.

    python -m benchmarks.panel [NODES SESSIONS]

Milliseconds of CPU time, with what asks for it in the same process: of a page that nobody has asked for since
the server began, of one that nobody has asked for since a pass that started one more session, of one that is
kept, and of one that the browser has already; bytes as they travel. Then of a draft that is planned, and,
where Chromium is, how long the first page takes until it hears keys and clicks, with an empty cache.
"""

from __future__ import annotations

import re
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from fastapi import FastAPI
from fastapi.testclient import TestClient

from bai.cli.main import start_lightly
from bai.web.app import create_app
from bai.web.auth.roles import AnonymousAuthenticator, Role, StaticAccess
from bai.web.cluster_loops import ClusterLoops
from benchmarks.loop import Bench
from reconciler.controller.figure_recorder import FigureRecorder
from tests.lab.browser import Chromium
from tests.lab.cache import LabUnavailable

PAGES = (
    "", "nodes", "nodes/dgx-0007", "queue", "sessions", "sessions?q=s99&sort=gpus", "sessions/p/s1", "plan",
    "reviews", "history", "events", "audit", "usage", "capacity", "resources", "resources?kind=Session",
    "nodes?group=all&page=7", "projects", "projects/p", "users", "groups", "groups/all", "waves", "storage",
    "images", "notifications", "audit?actor=loop&verb=create", "numbers", "numbers?range=30d", "numbers/data",
    "numbers/showback", "numbers/showback.csv", "new", "new?copy=Session/p/s1", "sessions/p/s1/terminal",
    "sessions/p/s1/logs", "sessions/p/s9999", "sessions/p/s9999?explain=true", "resources?kind=Node",
    "resources/Session/p/s1", "resources/Node/dgx-0007", "queue?page=30", "usage?by=session",
    "history?tail=1000", "events?tail=1000", "history/here-2",
    "sessions/p/s1/files",
)  # fmt: skip
"""Of all kinds but reviews, and the folders of sessions and volumes, of which the simulated nodes have none.
`here-2` is the apply that started everything; `s9999`: the last session, which waits where there are many."""
DRAFT = """\
apiVersion: bai/v1
kind: Session
metadata: {{name: {name}, project: p}}
spec: {{command: [sleep, inf], resources: {{cpu: 1, memory: 1GiB}}}}
"""
FILES = 1000
"""As many as a page of files shows."""
ASKS = {"HX-Request": "true", "Accept-Encoding": "gzip"}


def milliseconds(client: TestClient, address: str, headers: dict[str, str]) -> tuple[float, int, str]:
    began = time.process_time()
    answer = client.get(address, headers=headers)
    taken = 1000 * (time.process_time() - began)
    assert answer.status_code in (200, 304), (address, answer.status_code, answer.text[:300])
    return taken, answer.num_bytes_downloaded, answer.headers.get("etag", "")


def fill_figures(bench: Bench) -> None:
    """As a loop has them that has made a pass every minute for three days, and for thirty before."""
    store, now = bench.loop.workspace.store, bench.loop.workspace.clock.now() // 60 * 60
    rows = store.figures("here", 60, 0.0, now + 120)
    for minute in (*range(30 * 1440, 3 * 1440, -60), *range(3 * 1440, 0, -1)):
        store.save_figures("here", [replace(row, at=now - 60 * minute) for row in rows])


def preview(client: TestClient, name: str) -> float:
    """Milliseconds of CPU time until somebody who types sees what it would get."""
    token = re.search(r'name="token" value="(\w+)"', client.get("/clusters/here/new").text)
    text = DRAFT.format(name=name)
    began = time.process_time()
    answer = client.post(
        "/clusters/here/new/preview",
        data={"token": token[1] if token else "", "text": text, "shown": text},
        headers={"Sec-Fetch-Site": "same-origin"},
    )
    assert "It would" in answer.text, answer.text[:300]
    return 1000 * (time.process_time() - began)


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


def first_times(client: TestClient, pages: Iterable[str]) -> dict[str, float]:
    """Milliseconds of each page."""
    return {page: milliseconds(client, address(page), ASKS)[0] for page in pages}


def address(page: str) -> str:
    return f"/clusters/here/{page}".rstrip("/")


def main(nodes: int = 1250, sessions: int = 10_000) -> None:
    start_lightly()  # as every `bai` does
    with tempfile.TemporaryDirectory() as folder:
        bench, loops = Bench(Path(folder), nodes, sessions), ClusterLoops()
        bench.world.files_of = lambda kernel: {f"run-{number}.log": b"" for number in range(FILES)}
        loops.add(bench.loop)
        bench.loop.add_listener(FigureRecorder(bench.loop).record)
        for _ in range(3):
            bench.once()
        fill_figures(bench)
        app = create_app(loops, StaticAccess([AnonymousAuthenticator(Role.operator)]))
        with TestClient(app) as client:
            pages = [page.replace("s9999", f"s{sessions - 1}") for page in PAGES]
            first = first_times(client, pages)
            bench.add("more")
            changed = first_times(client, pages)
            print(f"{nodes} nodes, {sessions} sessions     first ms  changed ms  kept ms   304 ms     bytes")
            for page in pages:
                _, size, tag = milliseconds(client, address(page), ASKS)
                kept = min(milliseconds(client, address(page), ASKS)[0] for _ in range(5))
                known = {**ASKS, "If-None-Match": tag}
                same = min(milliseconds(client, address(page), known)[0] for _ in range(5))
                times = f"{first[page]:9.0f} {changed[page]:11.0f} {kept:8.1f} {same:8.1f}"
                print(f"{page or 'cluster':30} {times} {size:9,}")
            for name in ("one", "two", "three"):
                print(f"{'planned while typing':28} {preview(client, name):9.0f}")
        try:
            times = interactive_ms(app)
            print(f"the first page hears keys and clicks after {times[2]:.0f} ms (at most {times[-1]:.0f})")
        except LabUnavailable as error:
            print(f"the first page in a browser: {error}")
        bench.loop.workspace.close()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
