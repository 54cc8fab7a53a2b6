"""The demo of the panel: a day that was lived through, and `bai serve --demo` as somebody starts it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from bai.web.demo import demo_cluster
from bai.web.demo.day import PAST, STEP
from bai.web.demo.demo_cluster import DemoCluster
from bai.web.demo.serve_demo import SEED
from bai.web.demo.workload import HOUR
from providers.machines.files.one_file_archive import archived_file
from reconciler.controller.loop import Loop
from tests.harness.bai_process import Command, run_bai, start_bai
from tests.waiting import until

NOW = 1_800_000_000.0
CHANGES = "tests.bai.web.demo_changes"


class Lived:
    """A demo whose past is over, or the first hours of it."""

    def __init__(self, folder: Path, seed: int, past: float = PAST) -> None:
        self.demo = DemoCluster(folder, NOW, seed)
        (self.loop,) = self.demo.loop_settings.open_loops(self.demo.settings, self.demo.origin)
        self.lines: list[str] = []
        self.loop._log = self.lines.append
        self.demo.take_over(self.loop)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(demo_cluster, "PAST", past)
            self.demo.live_past(self.loop)

    def wrong(self) -> list[str]:
        """What the loop complained of."""
        return [line for line in self.lines if re.search(r"cannot|refused|^failed", line)]

    def placed(self) -> dict[str, tuple[str, tuple[str, ...]]]:
        kernels = self.demo.day.world.kernels.values()
        return {one.spec.id: (one.spec.labels.node, tuple(one.spec.devices)) for one in kernels}


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lived]:
    made = Lived(tmp_path_factory.mktemp("demo"), SEED)
    yield made
    made.loop.workspace.close()


def phases(loop: Loop) -> set[str]:
    known = loop.workspace.store.recorded("dgx").items()
    return {str(each.phase) for name, each in known if name.startswith("Session/")}


def test_its_first_hour_is_the_same_for_the_same_seed(tmp_path: Path) -> None:
    """Of the days below, what a quick run has time for."""
    lives = [Lived(tmp_path / name, seed, HOUR) for name, seed in (("a", SEED), ("b", SEED), ("c", 1))]
    one, same, other = lives
    assert one.wrong() == [] and "RUNNING" in phases(one.loop) and len(one.placed()) > 5
    assert one.placed() == same.placed() != other.placed()
    said_of_files(one)
    for each in lives:
        each.loop.workspace.close()


@pytest.mark.slow
def test_its_past_has_of_everything(lived: Lived) -> None:
    assert lived.wrong() == []
    plan = lived.loop._cycle.plan
    assert plan is not None
    assert {"no-capacity", "quota", "dependency", "starts-at"} <= {
        reason.code for wait in plan.waits for reason in wait.reasons
    }
    assert "RUNNING" in phases(lived.loop)
    events = "\n".join(lived.lines)
    assert "exited with 1" in events and "exited with 0" in events and "no contact with dgx-10" in events
    assert "GPU 4 of dgx-11 is out of placement" in events
    states = {node.name: node.spec.state for node in lived.loop.workspace.nodes}
    assert states["dgx-12"] == "drained" and len(states) == 16
    log = subprocess.run(
        ["git", "--git-dir", lived.demo.origin.url, "log", "--format=%an", "main"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert len(set(log.splitlines())) == 6


def said_of_files(lived: Lived) -> None:
    provider, done = lived.demo.day.provider, lived.loop._cycle
    assert done.actual is not None
    running = [kernel.id for each in done.actual.existing.values() for kernel in each.kernels
               if each.phase == "RUNNING"]  # fmt: skip
    for kernel_id in running:
        names = {each.name for each in provider.list_files(kernel_id, ".", 100).entries}
        assert "README.txt" in names and len(names) > 1, kernel_id
        readme = b"".join(archived_file(provider.copy_out(kernel_id, "README.txt")).pieces)
        assert b"Nothing runs here" in readme
    assert running


@pytest.mark.slow
def test_what_runs_has_files_that_say_what_they_are(lived: Lived) -> None:
    said_of_files(lived)


@pytest.mark.slow
def test_the_same_seed_makes_the_same_day_and_it_goes_on_for_another_one(
    lived: Lived, tmp_path: Path
) -> None:
    """Whoever leaves it open finds it alive: nothing is refused, and it does not grow for ever."""
    one = Lived(tmp_path, SEED)
    assert one.placed() == lived.placed()
    waits, before = ([line for line in each.lines if "waits" in line] for each in (one, lived))
    assert waits == before
    end = one.demo.day.now + 2 * PAST
    while one.demo.day.now < end:
        one.demo.day.advance(one.demo.day.now + 2 * STEP)
        one.loop.once()
    assert one.wrong() == []
    assert phases(one.loop) >= {"RUNNING", "PENDING"}
    known = [each for each in one.loop.workspace.store.recorded("dgx") if each.startswith("Session/")]
    assert len(known) < 80
    one.loop.workspace.close()


class Shown:
    """`bai serve --demo` as somebody starts it, with its files in a folder of its own. `first`: what is
    changed in it. Its start is nobody's subject: it is a fork, where a fork is the same."""

    def __init__(self, folder: Path, first: str = "") -> None:
        self.files, self._log = folder / "files", folder / "said"
        self.files.mkdir()
        environment = {**os.environ, "TMPDIR": str(self.files), "PYTHONUNBUFFERED": "1"}
        with self._log.open("w") as said:
            words = ("serve", "--demo", "--listen", "127.0.0.1:0")
            command = Command(words, environment, self.files, stdout=said, stderr=said, first=first)
            self.process = start_bai(command)

    def said(self) -> str:
        return self._log.read_text()

    def said_until(self, pattern: str) -> re.Match[str]:
        """What matches, once it has been said."""

        def look() -> re.Match[str] | bool | None:
            ended = self.process.poll() is not None
            return re.search(pattern, self.said()) or ended

        found = until(look, lambda: f"{pattern!r} is said: {self.said()}")
        assert isinstance(found, re.Match), self.said()
        return found

    def leaves_nothing(self) -> None:
        """It ends well, as somebody has told it to."""
        assert self.process.wait(60) == 0, self.said()
        assert list(self.files.iterdir()) == []


def simulated_now(address: str) -> float:
    page = requests.get(f"{address}/clusters/dgx", timeout=60).text
    found = re.search(r'data-now="(\d+)" data-pace="60.0"', page)
    assert found is not None and "Simulation." in page
    return float(found[1])


@pytest.mark.parametrize(
    ("number", "first"),
    [
        pytest.param(signal.SIGINT, "", marks=pytest.mark.slow),
        (signal.SIGHUP, f"{CHANGES}:live_an_hour"),
    ],
)
def test_the_command_shows_it_and_leaves_nothing(tmp_path: Path, number: int, first: str) -> None:
    shown = Shown(tmp_path, first)
    try:
        shown.said_until("Ctrl-C")
        address = shown.said_until(r"http://127\.0\.0\.1:\d+")[0]
        token = shown.said_until(r"as operator +(bai_\S+)")[1]
        before = simulated_now(address)
        until(lambda: simulated_now(address) > before, "time has passed")
        who = {"Authorization": f"Bearer {token}"}
        orders = f"{address}/api/v1/clusters/dgx/suspend"
        assert requests.post(orders, timeout=60).status_code == 403
        assert requests.post(orders, headers=who, timeout=60).status_code == 200
        shown.process.send_signal(number)
        shown.leaves_nothing()
    finally:
        shown.process.kill()


def test_it_can_be_ended_before_it_is_shown(tmp_path: Path) -> None:
    shown = Shown(tmp_path, f"{CHANGES}:live_without_end")
    try:
        shown.said_until("gone through")
        shown.process.send_signal(signal.SIGTERM)
        shown.leaves_nothing()
        assert "Ctrl-C" not in shown.said()
    finally:
        shown.process.kill()


def test_a_signal_waits_for_a_git_that_writes(tmp_path: Path) -> None:
    """One that is killed writes on for a moment, while its files are removed."""
    shown = Shown(tmp_path, f"{CHANGES}:signal_before_git")
    try:
        shown.said_until("git has written")
        shown.leaves_nothing()
    finally:
        shown.process.kill()


def test_it_is_beside_nothing_real(tmp_path: Path) -> None:
    words = ("serve", "--demo", "--remote", "https://git.example/cluster")
    done = run_bai(Command(words, dict(os.environ), tmp_path), timeout=120)
    assert done.returncode != 0 and "--demo has a cluster of its own" in done.stderr + done.stdout
