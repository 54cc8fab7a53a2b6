"""How long a container that has died is still asked, with the real Caddy, balancer and prober and an engine.

A probe finds it, or a request that does not reach it and goes to another one. `BAI_CONTAINER_DEATHS`: how
many die, one after the other (10).
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from bai.web.apps.proxy.balancer import SKIPPED
from bai.web.apps.proxy.balancer import Replica as Target
from providers.docker.options import open_docker
from providers.docker.provider import DockerProvider
from providers.machines.base import Stream
from reconciler.observe.readiness.ask import ask
from reconciler.observe.readiness.prober import Prober
from reconciler.observe.readiness.questions import Question, Replica, Run
from schemas.kinds.cluster import Cluster
from tests.bai.web.apps.app_lab import AppLab, app_lab
from tests.bai.web.apps.proxy.service_lab import SERVICE, Load, ServiceGate
from tests.lab.docker import Engine, Engines
from tests.lab.spaces import inside
from tests.providers.docker.specs import script
from tests.waiting import until

pytestmark = [pytest.mark.campaign, pytest.mark.xdist_group("docker-clusters")]
DEATHS = int(os.environ.get("BAI_CONTAINER_DEATHS", "10"))
PORT, PERIOD = 80, 1.0
NAMES = tuple(f"r{number}-main1-0-g1" for number in range(3))
SITE = "echo found >/tmp/index.html; exec httpd -f -p 80 -h /tmp"
QUESTION = Question("http", "the page", PORT, path="/index.html", period=PERIOD, timeout=60.0)
"""A loaded machine is slow, not wrong."""


CLUSTER = Cluster.model_validate({
    "apiVersion": "bai/v1", "kind": "Cluster", "metadata": {"name": "lab"}, "spec": {"provider": "docker"},
})  # fmt: skip


@dataclass
class DeadReplicas:
    """Containers on one engine, who asks them, and when each was dialled for a request."""

    engine: Engine
    provider: DockerProvider
    prober: Prober = field(default_factory=lambda: Prober(time.time, lambda: None))
    dials: list[tuple[str, float]] = field(default_factory=list)
    starts: Counter[str] = field(default_factory=Counter)

    def dial(self, place: str, port: int) -> Stream:
        name = place.partition("/")[2]
        self.dials.append((name, time.monotonic()))
        return self.provider.dial(name, port)

    def start(self, name: str) -> None:
        self.provider.create(script(SITE, name))
        self.starts[name] += 1

    def watch(self) -> None:
        """As a pass has them watched that has seen all of them run."""
        replicas = {
            name: Replica(name, name, "RUNNING", Run(self.starts[name], (name,), {}), QUESTION)
            for name in NAMES
        }
        self.prober.watch(replicas, partial(ask, self.provider, CLUSTER))

    def ready(self, name: str) -> bool:
        found = self.prober.ready(name)
        return found is not None and found.ready

    def use(self, apps: AppLab) -> None:
        targets = [
            Target(f"c/{name}", "g", 1.0, lambda port: port, partial(self.ready, name)) for name in NAMES
        ]
        apps.proxy.tunnels.balancer.update("c", {SERVICE: targets})

    def kill(self, name: str) -> float:
        """Gives when its process was gone."""
        with os.fdopen(os.pidfd_open(self.engine.inspect(name)["State"]["Pid"])) as handle:
            killing = threading.Thread(target=self.engine.docker, args=("kill", name))
            killing.start()
            select.select([handle], [], [])
            ended = time.monotonic()
        killing.join()
        return ended

    def asked_after(self, name: str, moment: float) -> list[float]:
        """Seconds from then on to each dial."""
        return [at - moment for dialled, at in list(self.dials) if dialled == name and at > moment]


@pytest.fixture
def replicas(engines: Engines) -> Iterator[DeadReplicas]:
    """On the engine's network, as bai is on a node without a network namespace."""
    (engine,) = engines(1)
    with inside(engine.namespace):
        made = DeadReplicas(engine, open_docker({}, machines=[engine.endpoint()]))
        yield made
        made.prober.halt()
        made.provider.close()
    engine.wipe()


def test_a_dead_container_is_asked_for_no_longer_than_a_probe_and_a_skip(
    replicas: DeadReplicas, tmp_path: Path
) -> None:
    for name in NAMES:
        replicas.start(name)
    last, dials = list[float](), list[int]()
    with app_lab(tmp_path, dial=replicas.dial, gate=ServiceGate(1)) as apps:
        replicas.watch()
        until(lambda: all(map(replicas.ready, NAMES)), "all answer")
        replicas.use(apps)
        load = Load(apps.port, 4)
        try:
            for number in range(DEATHS):
                name = NAMES[number % len(NAMES)]
                load.goes_on()
                died = replicas.kill(name)
                until(lambda name=name: not replicas.ready(name), "its end is known")
                load.goes_on()
                asked = replicas.asked_after(name, died)
                last.append(max(asked, default=0.0))
                dials.append(len(asked))
                replicas.provider.remove(name)
                replicas.start(name)
                replicas.watch()
                until(lambda name=name: replicas.ready(name), "it is back")
        finally:
            load.end()
    print(
        f"{DEATHS} deaths: asked last {max(last):.2f} s after (median {sorted(last)[DEATHS // 2]:.2f} s), "
        f"{sum(dials)} times in all; {len(load.answers)} requests, {len(load.failed)} failed"
    )
    assert [each for each in load.failed if "IncompleteRead" not in each] == [], "it had begun to answer"
    assert max(last) <= PERIOD + SKIPPED
