"""`apply` on two real engines, killed with SIGKILL at random moments: the next run makes it right.

What runs is asked of the engines without bai's help. `BAI_DOCKER_KILLS`: how many kills (5; the whole proof
takes 200), `BAI_KILL_SEED`: which.
"""

from __future__ import annotations

import json
import os
import random
import threading
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from providers.docker.container.runtime_files import FOLDERS
from tests.integration.applying import Applier
from tests.integration.killing import Ground, Running, killed_anywhere, session_of
from tests.lab.cable import Cable
from tests.lab.docker import IMAGE, Engine, Engines
from tests.lab.stores import NAME, environment, owner_file
from tests.waiting import soon

pytestmark = pytest.mark.xdist_group("docker-clusters")
KILLS = int(os.environ.get("BAI_DOCKER_KILLS", "5"))
SEED = int(os.environ.get("BAI_KILL_SEED", "1"))
CLUSTER = """
apiVersion: bai/v1
kind: Cluster
metadata: {name: lab}
spec: {provider: docker}
---
apiVersion: bai/v1
kind: ResourceGroup
metadata: {name: all}
spec: {queue: fifo, selection: dispersed}
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


class Lab(Ground):
    """The directory, the applier, and what really runs on the engines."""

    def __init__(self, directory: Path, engines: list[Engine]) -> None:
        self.engines = engines
        self.others = _folders()
        directory.mkdir()
        self.cables = [Cable(directory.parent / engine.name, engine.socket) for engine in engines]
        nodes = [json.dumps(_node(cable)) for cable in self.cables]
        os.environ["BAI_SECRET_STORES"] = str(owner_file(directory.parent / NAME, environment("HOME")))
        (directory / "lab.yaml").write_text("\n---\n".join([CLUSTER, *nodes]))
        super().__init__(directory, Applier(directory))

    def session(self, name: str, version: int, size: int) -> dict[str, Any]:
        spec = {
            "image": IMAGE,
            "command": ["sh", "-c", "trap 'exit 0' TERM; sleep 1000000 & wait"],
            "env": {"NAME": name, "VERSION": str(version)},
            "secrets": [{"env": "PASSWORD", "from": "env/HOME"}] if version == 2 else [],
        }
        return session_of(name, size, spec)

    def containers(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for engine in self.engines:
            names = engine.docker("ps", "-aq").split()
            found += json.loads(engine.docker("inspect", *names)) if names else []
        return found

    def running(self) -> Running:
        found: Running = Counter()
        for each in self.containers():
            env = dict(item.split("=", 1) for item in each["Config"]["Env"])
            state = env["VERSION"] if each["State"]["Running"] else each["State"]["Status"]
            found[env["NAME"], env["BACKENDAI_CLUSTER_HOST"], state] += 1
        return found

    def left(self) -> list[str]:
        """Everything of bai's beside containers."""
        found = sorted(_folders() - self.others)
        for engine in self.engines:
            found += engine.docker("volume", "ls", "-q").split()
            found += engine.docker("network", "ls", "-q", "--filter", "type=custom").split()
        return found

    def close(self) -> None:
        self.applier.close()
        del os.environ["BAI_SECRET_STORES"]
        for cable in self.cables:
            cable.cut()
        for engine in self.engines:
            engine.wipe()


def _folders() -> set[str]:
    """In this machine's memory, whose kernels' they may be: other tests' have no such hash in their names."""
    return {str(path) for folder in FOLDERS for path in Path(folder).glob("s[0-9]-*-????????-g*")}


def _node(cable: Cable) -> dict[str, Any]:
    hardware = {"numaNodes": [{"id": 0, "cpus": "0-1", "memory": 8 * 2**30}]}
    spec = {
        "address": "localhost",
        "resourceGroup": "all",
        "docker": {"socket": str(cable.path)},
        "hardware": hardware,
    }
    return {"apiVersion": "bai/v1", "kind": "Node", "metadata": {"name": cable.path.name}, "spec": spec}


@pytest.fixture(scope="module")
def lab(engines: Engines, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    made = Lab(tmp_path_factory.mktemp("kill") / "repository", engines(2))
    try:
        yield made
    finally:
        made.close()


@pytest.mark.slow
def test_killed_anywhere_the_next_run_ends_with_exactly_what_is_wanted(lab: Lab) -> None:
    killed_anywhere(lab, random.Random(SEED), KILLS)


@pytest.mark.slow
def test_a_link_that_is_cut_during_an_apply(lab: Lab) -> None:
    """Each time a node is lost at another moment, and comes back."""
    rng = random.Random(SEED)
    for number in range(2):
        wanted = lab.want({f"s{n}": (number % 3, 1 + n % 2) for n in range(3)})
        cable = lab.cables[number % 2]
        cutter = threading.Timer(rng.uniform(0.1, 0.8), cable.cut)
        cutter.start()
        lab.apply()
        cutter.join()
        cable.cut()
        cable.mend()
        again = lab.apply()
        assert not again["error"], again
        assert soon(partial(lab.runs, wanted)), f"{again}; there is {dict(lab.running())}"
    assert lab.apply()["changes"] == 0


@pytest.mark.slow
def test_a_container_removed_by_hand_comes_back(lab: Lab) -> None:
    wanted = lab.want({"s0": (1, 1), "s1": (1, 2)})
    assert not lab.apply()["error"]
    victim = lab.containers()[0]["Name"].lstrip("/")
    for engine in lab.engines:
        if victim in engine.docker("ps", "--format", "{{.Names}}").split():
            engine.docker("rm", "-f", victim)
    again = lab.apply()
    assert again["changes"] == 1 and not again["error"], again
    assert soon(partial(lab.runs, wanted)), dict(lab.running())
    assert lab.apply()["changes"] == 0


@pytest.mark.slow
def test_in_the_end_nothing_is_left(lab: Lab) -> None:
    lab.want({})
    assert not lab.apply()["error"]
    assert lab.apply()["changes"] == 0
    assert lab.containers() == []
    assert soon(lambda: not lab.left()), lab.left()
