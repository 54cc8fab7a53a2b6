"""Two `bai serve` on one store hand requests to the same replicas, each through its own Caddy: what one of
them does to a replica, the other one hears of before a request is lost.

On PostgreSQL one of them leads and acts; on a file both do, in turns.
"""

from __future__ import annotations

import signal
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import yaml

from tests.bai.conftest import PATIENCE
from tests.harness.ports import free_port
from tests.integration.service_grounds import ProcessGround
from tests.integration.service_lab import ServiceLab, new_service_lab
from tests.integration.service_load import Load
from tests.lab.postgres import Server

pytestmark = pytest.mark.slow
REPLICAS = 2


@dataclass
class TwoServers:
    """`one` has begun first: it leads, where one does."""

    one: ServiceLab
    other: ServiceLab

    def load(self, server: ServiceLab) -> Load:
        """Through this one; both serve the same URL."""
        host = f"http--web--demo.apps.example:{self.one.apps}"
        return Load(server.apps, {"Host": host, "Authorization": f"Bearer {self.one.token}"}, 4)

    def until_agreed(self) -> None:
        """What one of them knows, the other one has heard."""

        def same() -> bool:
            one, other = (each.service().get("status") for each in (self.one, self.other))
            return bool(one) and one == other

        self.other.until(same, "both say the same")

    def ask_what_none_answers(self) -> None:
        """Another document that changes the readiness probe alone."""
        path = self.one.repo.root / "service.yaml"
        document = yaml.safe_load(path.read_text())
        document["spec"]["readiness"] = {"command": ["false"], "period": "1s"}
        document["spec"]["update"] = {"deadline": "3s"}
        self.one.repo.write(".service.yaml.new", yaml.safe_dump(document)).replace(path)


@pytest.fixture(scope="module", params=["server", "file"])
def servers(request: pytest.FixtureRequest) -> Iterator[TwoServers]:
    with tempfile.TemporaryDirectory(prefix="bai-t-") as name:
        ground = ProcessGround()
        repo = ground.repo(Path(name))
        if request.param == "server":
            postgres: Server | str = request.getfixturevalue("postgres_lab")
            if isinstance(postgres, str):
                pytest.skip(f"PostgreSQL lab: {postgres}")
            repo.env["BAI_STATE"] = postgres.database()
        one = new_service_lab(ground, repo, REPLICAS)
        other = replace(one, panel=free_port(), apps=free_port(), process=None)
        try:
            one.serve()
            one.until_complete("v1")
            other.serve()
            made = TwoServers(one, other)
            made.until_agreed()
            yield made
        finally:
            for each in (one, other):
                if each.process is not None:
                    each.process.send_signal(signal.SIGTERM)
                    each.process.wait(PATIENCE)
            one.lives.close()
            for path in repo.root.glob("[as]*.yaml"):
                path.unlink()
            repo("state", "unlock", "--yes")
            repo.ok("destroy", "--yes")
            ground.tidy(repo)


def test_updates_lose_no_request_through_either(servers: TwoServers) -> None:
    """Nor does one more that begins while the other one drains; streams are under way all the time."""
    begun = time.monotonic()
    with servers.load(servers.other) as load, servers.load(servers.one) as beside:
        for version in ("v2", "v3"):
            servers.one.write(version)
            servers.one.until_complete(version)
            servers.until_agreed()
            load.until_asked()
    assert load.problems(begun) == [] and beside.problems(begun) == []
    assert set(load.answered_by(begun)) >= {"v2", "v3"}
    assert servers.one.lives.least(begun) == REPLICAS


def test_a_commit_that_breaks_the_probe_loses_no_request(servers: TwoServers) -> None:
    begun = time.monotonic()
    (version,) = servers.one.lives.versions()
    with servers.load(servers.other) as load, servers.load(servers.one) as beside:
        servers.ask_what_none_answers()
        servers.one.until(servers.one.has_failed, "it is given up")
        servers.one.until_complete(version)
        load.until_asked()
    assert load.problems(begun) == [] and beside.problems(begun) == []
    assert servers.one.lives.least(begun) == REPLICAS


def test_whoever_is_killed_holds_up_no_update(servers: TwoServers) -> None:
    """What it had is over; nobody waits for its word for longer than a moment."""
    servers.other.kill()
    begun = time.monotonic()
    with servers.load(servers.one) as load:
        servers.one.write("v4")
        servers.one.until_complete("v4")
    assert load.problems(begun) == []
