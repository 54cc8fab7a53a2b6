"""`apply` on real processes, killed with SIGKILL at random moments: the next run makes it right.

What runs is read from /proc, without bai's help. `BAI_KILLS`: how many kills (200), `BAI_KILL_SEED`: which.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

KILLS = int(os.environ.get("BAI_KILLS", "200"))
SEED = int(os.environ.get("BAI_KILL_SEED", "1"))
CHUNK = 50
TOP = Path(__file__).resolve().parents[2]
HERE = """
apiVersion: bai/v1
kind: Cluster
metadata: {name: here}
spec: {provider: process}
---
apiVersion: bai/v1
kind: Node
metadata: {name: localhost}
spec: {address: localhost, resourceGroup: local}
---
apiVersion: bai/v1
kind: ResourceGroup
metadata: {name: local}
spec: {queue: fifo}
---
apiVersion: bai/v1
kind: Domain
metadata: {name: d}
spec: {}
---
apiVersion: bai/v1
kind: Project
metadata: {name: p}
spec: {domain: d}
"""
Running = Counter[tuple[str, str, str]]
"""(session, container, version) → how many processes."""


class Machine:
    """The directory, the applier, and what really runs."""

    def __init__(self, directory: Path, root: Path) -> None:
        self.directory = directory
        self.mark = uuid.uuid4().hex
        self.root = root
        directory.mkdir()
        (directory / "here.yaml").write_text(HERE)
        environment = {**os.environ, "BAI_PROCESS_ROOT": str(root), "PYTHONPATH": str(TOP)}
        environment.pop("BAI_STATE", None)
        self.applier = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("applier.py")), str(directory)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, cwd=directory, text=True,
        )  # fmt: skip

    def apply(self, after: float | None = None) -> dict[str, Any]:
        assert self.applier.stdin is not None and self.applier.stdout is not None
        self.applier.stdin.write(json.dumps({"after": after}) + "\n")
        self.applier.stdin.flush()
        answer: dict[str, Any] = json.loads(self.applier.stdout.readline())
        return answer

    def want(self, sessions: dict[str, tuple[int, int]]) -> Running:
        """Write documents of `name → (version, containers)`; gives what should run then."""
        documents = [self._session(name, *how) for name, how in sessions.items()]
        (self.directory / "sessions.yaml").write_text("\n---\n".join(map(json.dumps, documents)))
        hosts = {
            name: ["main1", *(f"sub{n}" for n in range(1, size))] for name, (_, size) in sessions.items()
        }
        return Counter(
            (name, host, str(sessions[name][0])) for name, names in hosts.items() for host in names
        )

    def _session(self, name: str, version: int, size: int) -> dict[str, Any]:
        return {
            "apiVersion": "bai/v1",
            "kind": "Session",
            "metadata": {"name": name, "project": "p"},
            "spec": {
                "resources": {"cpu": "10m", "memory": "16MiB"},
                "cluster": {"roles": {"main": 1} | ({"sub": size - 1} if size > 1 else {})},
                "command": ["sleep", "100000"],
                "env": {"MARK": self.mark, "NAME": name, "VERSION": str(version)},
                "stop": {"grace": "5s"},
            },
        }

    def running(self) -> Running:
        """Every `sleep` that bears this test's mark."""
        found: Running = Counter()
        for pid in self.marked():
            with contextlib.suppress(OSError):
                if Path(f"/proc/{pid}/comm").read_text().strip() == "sleep":
                    env = _environ(pid)
                    found[env["NAME"], env["BACKENDAI_CLUSTER_HOST"], env["VERSION"]] += 1
        return found

    def runs(self, wanted: Running) -> bool:
        return self.running() == wanted

    def marked(self) -> list[int]:
        """Processes that belong to this test: they bear its mark, or name its folder."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal() and int(entry.name) not in (os.getpid(), self.applier.pid):
                with contextlib.suppress(OSError):
                    text = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
                    if self.mark.encode() in text or str(self.root).encode() in text:
                        found.append(int(entry.name))
        return found

    def close(self) -> None:
        """Nothing stays, whatever happened."""
        with contextlib.suppress(OSError, ValueError, AssertionError):
            self.want({})
            self.apply()
        self.applier.kill()
        self.applier.communicate()
        for pid in self.marked():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)


def _environ(pid: int) -> dict[str, str]:
    parts = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
    return dict(part.split("=", 1) for part in parts if "=" in part)


def soon(condition: Callable[[], bool]) -> bool:
    """Whether it becomes true within a minute."""
    deadline = time.monotonic() + 60
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    base = tmp_path_factory.mktemp("kill")
    made = Machine(base / "repository", base / "root")
    try:
        yield made
    finally:
        made.close()


def wishes(rng: random.Random) -> dict[str, tuple[int, int]]:
    names = [f"s{n}" for n in range(4) if rng.random() < 0.7]
    return {name: (rng.randrange(3), rng.choice([1, 1, 2])) for name in names}


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, KILLS, CHUNK))
def test_killed_anywhere_the_next_run_ends_with_exactly_what_is_wanted(machine: Machine, first: int) -> None:
    rng = random.Random(SEED * 1_000_003 + first)
    kills = 0
    longest = 0.3
    while kills < min(CHUNK, KILLS - first):
        wanted = machine.want(wishes(rng))
        answer = machine.apply(after=rng.uniform(0, longest))
        kills += answer["killed"]
        longest = 0.9 * longest + 0.1 * (answer["seconds"] + 0.1) if not answer["killed"] else longest * 1.02
        again = machine.apply()
        where = f"kill {first + kills}, wanted {dict(wanted)}, the next run said {again}"
        assert not again["error"], where
        assert soon(partial(machine.runs, wanted)), f"{where}; running {dict(machine.running())}"


def test_in_the_end_nothing_is_left(machine: Machine) -> None:
    machine.want({"last": (1, 2)})
    assert not machine.apply()["error"]
    machine.want({})
    assert not machine.apply()["error"]
    assert machine.apply()["changes"] == 0
    assert soon(lambda: not machine.marked()), machine.marked()
