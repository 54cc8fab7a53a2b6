"""`apply` on real processes, killed with SIGKILL at random moments: the next run makes it right.

Two at once double nothing.

What runs is read from /proc, without bai's help. `BAI_KILLS`: how many kills (20), `BAI_KILL_SEED`: which;
`BAI_RACES`: how many times two begin at once (5).
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import uuid
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.integration.applying import Applier
from tests.integration.killing import Ground, Running, killed_anywhere, session_of, wishes
from tests.lab.postgres import Server
from tests.waiting import soon

KILLS = int(os.environ.get("BAI_KILLS", "20"))
RACES = int(os.environ.get("BAI_RACES", "5"))
SEED = int(os.environ.get("BAI_KILL_SEED", "1"))
REFUSALS = ("LeaseHeld", "LeaseLost", "StalePlan")
CHUNK = 20
SERVER_KILLS = 5
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


class Machine(Ground):
    """The directory, the applier, and what really runs."""

    def __init__(self, directory: Path, root: Path, **environment: str) -> None:
        self.mark = uuid.uuid4().hex
        self.root = root
        directory.mkdir()
        (directory / "here.yaml").write_text(HERE)
        applier = Applier(directory, BAI_PROCESS_ROOT=str(root), **environment)
        super().__init__(directory, applier)

    def session(self, name: str, version: int, size: int) -> dict[str, Any]:
        env = {"MARK": self.mark, "NAME": name, "VERSION": str(version)}
        return session_of(name, size, {"command": ["sleep", "100000"], "env": env})

    def running(self) -> Running:
        """Every `sleep` that bears this test's mark."""
        found: Running = Counter()
        for pid in self.marked():
            with contextlib.suppress(OSError):
                if Path(f"/proc/{pid}/comm").read_text().strip() == "sleep":
                    env = _environ(pid)
                    if "NAME" in env:  # One that is just ending has none any more.
                        found[env["NAME"], env["BACKENDAI_CLUSTER_HOST"], env["VERSION"]] += 1
        return found

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
        self.applier.close()
        for pid in self.marked():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)


def _environ(pid: int) -> dict[str, str]:
    parts = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
    return dict(part.split("=", 1) for part in parts if "=" in part)


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    base = tmp_path_factory.mktemp("kill")
    made = Machine(base / "repository", base / "root")
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def on_server(tmp_path_factory: pytest.TempPathFactory, postgres_lab: Server | str) -> Iterator[Machine]:
    """The same with its store on a server."""
    if isinstance(postgres_lab, str):
        pytest.skip(f"PostgreSQL lab: {postgres_lab}")
    base = tmp_path_factory.mktemp("kill-server")
    url = postgres_lab.database(empty=True)
    made = Machine(base / "repository", base / "root", BAI_STATE=url)
    try:
        yield made
    finally:
        made.close()
        postgres_lab.drop(url)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, KILLS, CHUNK))
def test_killed_anywhere_the_next_run_ends_with_exactly_what_is_wanted(machine: Machine, first: int) -> None:
    killed_anywhere(machine, random.Random(SEED * 1_000_003 + first), min(CHUNK, KILLS - first), first=first)


@pytest.mark.slow
def test_of_two_applies_at_once_one_goes_on_and_nothing_is_doubled(machine: Machine) -> None:
    rng = random.Random(SEED * 3_000_017)
    other = Applier(machine.directory, BAI_PROCESS_ROOT=str(machine.root))
    try:
        with ThreadPoolExecutor(2) as pool:
            for race in range(RACES):
                wanted = machine.want(wishes(rng))
                begun = [pool.submit(each.apply) for each in (machine.applier, other)]
                errors = [each.result()["error"] for each in begun]
                assert "" in errors, errors
                assert all(not each or each.startswith(REFUSALS) for each in errors), errors
                assert soon(partial(machine.runs, wanted)), f"race {race}: {errors}, {machine.running()}"
    finally:
        other.close()


@pytest.mark.slow
def test_killed_anywhere_with_a_store_on_a_server(on_server: Machine) -> None:
    killed_anywhere(on_server, random.Random(SEED * 2_000_003), min(SERVER_KILLS, KILLS))
    in_the_end_nothing_is_left(on_server)


def test_in_the_end_nothing_is_left(machine: Machine) -> None:
    in_the_end_nothing_is_left(machine)


def in_the_end_nothing_is_left(machine: Machine) -> None:
    machine.want({"last": (1, 2)})
    assert not machine.apply()["error"]
    machine.want({})
    assert not machine.apply()["error"]
    assert machine.apply()["changes"] == 0
    assert soon(lambda: not machine.marked()), machine.marked()
