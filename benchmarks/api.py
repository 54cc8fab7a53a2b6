"""A load test of the API of `bai serve` with wrk: requests a second, and how long an answer takes.

    python -m benchmarks.api --seconds 10 --connections 16 --json result.json

The server looks after native processes (`--sessions` of them) and is at work as usual. Each route is asked
for some seconds with some connections at a time, with a token. wrk is the Debian package of that name.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.results import parser_of, show
from benchmarks.served import SESSION, served
from benchmarks.soak import Sample, sample
from tests.lab.cache import tool
from tests.lab.serve import TOKEN, Serve

ROUTES = {
    "healthz": "/healthz",
    "cluster": "/api/v1/clusters/here",
    "resources": "/api/v1/clusters/here/resources",
    "queue": "/api/v1/clusters/here/queue",
    "plan": "/api/v1/clusters/here/plan",
    "events": "/api/v1/clusters/here/events?limit=100",
    "metrics": "/metrics",
}
_UNITS = {"us": 1e-3, "ms": 1.0, "s": 1e3, "m": 6e4}


def load(server: Serve, path: str, seconds: int, connections: int) -> dict[str, Any]:
    """What wrk says of one route; milliseconds."""
    done = subprocess.run(
        [
            tool("wrk"), "-t", "2", "-c", str(connections), "-d", f"{seconds}s", "--latency",
            "--timeout", "30s", "-H", f"Authorization: Bearer {TOKEN}", f"{server.url}{path}",
        ],
        check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    said = done.stdout
    wrong = re.search(r"Non-2xx or 3xx responses: (\d+)", said)
    lost = re.search(r"Socket errors: (.*)", said)
    rate = re.search(r"Requests/sec:\s+([\d.]+)", said)
    assert rate is not None, said
    return {
        "per_second": float(rate[1]), "p50_ms": _latency(said, "50%"), "p99_ms": _latency(said, "99%"),
        "refused": int(wrong[1]) if wrong else 0, "lost": lost[1] if lost else "",
    }  # fmt: skip


def loaded(server: Serve, path: str, seconds: int, connections: int) -> dict[str, Any]:
    """The same, with the server's own work for one answer, whatever else the machine does."""
    before = _worked(server.pid)
    found = load(server, path, seconds, connections)
    spent = _worked(server.pid) - before
    return {**found, "cpu_ms": round(1000 * spent / max(1.0, found["per_second"] * seconds), 2)}


def _settled(pid: int) -> Sample:
    """Once the connections of those who asked are closed."""
    now = sample(pid)
    for _ in range(20):
        time.sleep(0.5)
        before, now = now, sample(pid)
        if now.files >= before.files:
            break
    return now


def _worked(pid: int) -> float:
    """Seconds of processors that a process has had (proc(5): utime and stime)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _latency(said: str, share: str) -> float:
    found = re.search(rf"{share}\s+([\d.]+)(us|ms|s|m)\b", said)
    assert found is not None, said
    return round(float(found[1]) * _UNITS[found[2]], 2)


def measure(seconds: int, connections: int, sessions: int, root: Path) -> dict[str, Any]:
    with served(root) as site:
        server = site.server
        site.work.commit("sessions", "---\n".join(SESSION.format(name=f"s{n}") for n in range(sessions)))
        site.work.push()
        server.until(lambda: list(server.states().values()) == ["RUNNING"] * sessions, "all run")
        before = sample(server.pid)
        found = {name: loaded(server, path, seconds, connections) for name, path in ROUTES.items()}
        after = _settled(server.pid)
        site.empty()
        assert server.stop() == 0
    return {
        "seconds": seconds, "connections": connections, "sessions": sessions, "routes": found,
        "memory_mib": {"before": round(before.memory, 1), "after": round(after.memory, 1)},
        "files": {"before": before.files, "after": after.files}, "load": os.getloadavg()[0],
    }  # fmt: skip


def main() -> None:
    parser = parser_of("api", __doc__)
    parser.add_argument("--seconds", type=int, default=10, help="of each route")
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--sessions", type=int, default=10)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bai-api-") as folder:
        found = measure(given.seconds, given.connections, given.sessions, Path(folder))
    show(found, given.json)


if __name__ == "__main__":
    main()
