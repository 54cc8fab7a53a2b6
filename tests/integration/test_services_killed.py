"""`bai reconcile` killed with SIGKILL at random moments of updates of a service: the next one ends with
exactly its replicas.

What runs is read from /proc, without bai's help, and engines are asked what is left. `BAI_SERVICE_KILLS`: how
many kills (8), `BAI_KILL_SEED`: which.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.bai.conftest import PATIENCE, Repo
from tests.harness.labs import spent
from tests.harness.ports import free_port
from tests.integration.service_grounds import ServiceGround, service_ground
from tests.integration.service_lab import Lives, service_document
from tests.waiting import until

KILLS = int(os.environ.get("BAI_SERVICE_KILLS", "8"))
SEED = int(os.environ.get("BAI_KILL_SEED", "1"))
CHUNK = 20
REPLICAS = 2


class Followed:
    """A repository with one service, and the loop that follows it."""

    def __init__(self, ground: ServiceGround, folder: Path) -> None:
        self.ground = ground
        self.repo: Repo = ground.repo(folder)
        self.lives = Lives(ground.receiver())
        self._port = free_port()
        self._log = folder / "reconcile.log"
        self._loop: Any = None

    def want(self, version: str) -> None:
        env = {"VERSION": version, "TELL": self.lives.address}
        text = service_document(self.ground, env, REPLICAS, self._port, {})
        self.repo.write("service.new", text).replace(self.repo.root / "service.yaml")

    def begin(self) -> None:
        with self._log.open("a") as out:
            self._loop = self.repo.stay("reconcile", "--interval", "1s", out=out)

    def kill(self) -> None:
        self._loop.kill()
        self._loop.wait(PATIENCE)

    def runs(self) -> Counter[tuple[str, str]]:
        """Processes by the replica and its version."""
        return Counter((each.replica, each.version) for each in self.lives.processes())

    def until_right(self, version: str) -> None:
        """Each replica of this version is there once, nobody else is, and the store says so."""

        def right() -> bool:
            runs = self.runs()
            alone = len(runs) == runs.total() == REPLICAS and {each[1] for each in runs} == {version}
            return alone and self.ground.kernels() == REPLICAS and self.is_complete()

        def told() -> str:
            return f"{version}: {self.runs()} {self.ground.kernels()} kernels; {self._log.read_text()}"

        until(right, told)

    def is_complete(self) -> bool:
        """As the store has it: the latest generation is stable, and all replicas are of it."""
        found = json.loads(self.repo.ok("get", "service/web", "--format", "json").out)
        (service,) = found["items"]
        status = service["status"]
        generations = {each["generation"] for each in service["replicas"]}
        named = [each["name"] for each in service["generations"] if each["stable"]]
        latest = [status["latest"]]
        return status["phase"] == "complete" and latest == named == [status["stable"]] == list(generations)

    def close(self) -> None:
        try:
            self.kill()
            self.ground.tidy(self.repo)
            assert self.runs() == Counter()
        finally:
            self.lives.close()


@pytest.fixture(scope="module", params=["process", pytest.param("docker", marks=pytest.mark.campaign)])
def followed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Followed]:
    folder = tmp_path_factory.mktemp("killed")
    with service_ground(request.param, folder) as ground:
        made = Followed(ground, folder)
        made.want("first")
        made.begin()
        try:
            yield made
        finally:
            made.close()


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, KILLS, CHUNK))
@spent("kills")
def test_killed_anywhere_in_updates_each_replica_is_there_once(followed: Followed, first: int) -> None:
    """How long an update takes here and now is seen from those that nobody kills."""
    rng = random.Random(SEED * 5_000_011 + first)
    kills, last = first, min(first + CHUNK, KILLS)
    longest = _seconds_of_an_update(followed, f"{first}-alone")
    while kills < last:
        version = f"{first}-{kills}"
        followed.want(version)
        for _ in range(min(rng.randint(1, 3), last - kills)):
            time.sleep(rng.uniform(0, longest))
            followed.kill()
            kills += 1
            followed.begin()
        followed.until_right(version)


def _seconds_of_an_update(followed: Followed, version: str) -> float:
    followed.want(f"before-{version}")
    followed.until_right(f"before-{version}")
    begun = time.monotonic()
    followed.want(version)
    followed.until_right(version)
    return time.monotonic() - begun
