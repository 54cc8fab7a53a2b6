"""What pages cost a server: of a cluster of 1,250 nodes and 10,000 sessions.

    python -m benchmarks.panel [NODES SESSIONS]

Milliseconds of CPU time, with what asks for it in the same process: of a page that nobody has asked for since
the server began, of one that nobody has asked for since a pass that started one more session, of one that is
kept, and of one that the browser has already; bytes as they travel. Then of a draft that is planned, and,
where Chromium is, how long the first page takes until it hears keys and clicks, with an empty cache.
Milliseconds of a page that nobody has asked for since the last pass, of one that is kept, and of one that the
browser has already; bytes as they travel. Then of a draft that is planned; and of the review of a commit
that changes one file, and of a change that somebody is about to confirm, how long the first answer takes, and
until what it would do is shown.
Milliseconds of CPU time of a page that nobody has asked for since the last pass, of one that is kept, and of
one that the browser has already, with what asks for it in the same process; bytes as they travel. Then, where
Chromium is, how long the first page takes until it hears keys and clicks, with an empty cache.
"""

from __future__ import annotations

import re
import subprocess
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
    """Milliseconds until somebody who types sees what it would get."""
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


def git(root: Path, *words: str) -> None:
    who = ("-c", "user.name=bench", "-c", "user.email=bench@localhost")
    subprocess.run(["git", "-C", str(root), *who, *words], check=True, capture_output=True)


def commit_changes(root: Path, folder: Path) -> None:
    """Branches with another document of one session each."""
    git(root, "add", "repository")
    git(root, "commit", "-qm", "what runs")
    for at in (0, 10, 20):
        git(root, "checkout", "-qb", f"change-{at}", "main")
        path = folder / "sessions" / f"{at}.yaml"
        path.write_text(path.read_text().replace("[sleep, inf]", "[sleep, '9']", 1))
        git(root, "commit", "-qam", "one changed")
    git(root, "checkout", "-q", "main")


def until_shown(client: TestClient, address: str, shown: str) -> tuple[float, float]:
    """Milliseconds until the first answer, and seconds until one that has what it is about."""
    began = time.perf_counter()
    answer = client.get(address)
    first = time.perf_counter() - began
    while shown not in answer.text:
        assert answer.status_code == 200 and 'id="planning"' in answer.text, answer.text[:300]
        time.sleep(0.02)
        answer = client.get(address)
    return 1000 * first, time.perf_counter() - began


def planned(client: TestClient) -> None:
    """What is planned of the commits and changes that somebody looks at."""
    print("                                             answer ms  shown after s")
    for name, words, addresses, shown in (
        ("review of a one-file change", ("first", "next", "next"),
         [f"review?commit=change-{at}" for at in (0, 10, 20)], ">Documents <"),
        ("change confirmation", ("first", "next", "next"),
         [f"change?action=priority&target=Session/p/s{at}&value=7" for at in (1, 2, 3)], "nobody waits"),
    ):  # fmt: skip
        for word, address in zip(words, addresses, strict=True):
            first, seconds = until_shown(client, f"/clusters/here/{address}", shown)
            print(f"{f'{name}, {word}':44} {first:9.0f} {seconds:9.1f}")


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
        git(Path(folder), "init", "-q", "-b", "main")
        git(Path(folder), "commit", "-q", "--allow-empty", "-m", "nothing yet")
        bench, loops = Bench(Path(folder), nodes, sessions), ClusterLoops()
        bench.world.files_of = lambda kernel: {f"run-{number}.log": b"" for number in range(FILES)}
        commit_changes(Path(folder), bench.folder)
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
            planned(client)
        try:
            times = interactive_ms(app)
            print(f"the first page hears keys and clicks after {times[2]:.0f} ms (at most {times[-1]:.0f})")
        except LabUnavailable as error:
            print(f"the first page in a browser: {error}")
        bench.loop.workspace.close()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
