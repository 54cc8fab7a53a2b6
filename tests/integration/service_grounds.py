"""Where replicas of a service run in tests: as processes of this machine, or in containers on several Docker
nodes, each of which is reached by SSH as nodes elsewhere are."""

from __future__ import annotations

import json
import socket
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests.bai.conftest import CLUSTER, Repo, new_repo, tidy
from tests.harness.ports import free_port
from tests.lab import docker, sshd
from tests.lab.docker import Engine
from tests.lab.docker_lab import DockerLab
from tests.lab.lent import lent
from tests.lab.python_root import python_root
from tests.lab.spaces import receiving

NODES = 3
_PYTHON = "bai-lab-python:1"
_DOCKER_CLUSTER = """
apiVersion: bai/v1
kind: Cluster
metadata: {{name: here}}
spec:
  provider: docker
  ssh: {{user: root, port: {port}, keyFrom: lab/key, knownHostsFrom: lab/known_hosts}}
---
apiVersion: bai/v1
kind: ResourceGroup
metadata: {{name: all}}
---
apiVersion: bai/v1
kind: Project
metadata: {{name: demo}}
"""


class ServiceGround(ABC):
    """`listen`: the address at which replicas take requests; `nodes`: names of those that can be drained;
    `environment`: variables of commands."""

    listen: str
    nodes: tuple[str, ...]
    environment: Mapping[str, str] = MappingProxyType({})

    @abstractmethod
    def repo(self, folder: Path) -> Repo:
        """A repository of its cluster alone, all of whose nodes are active."""

    @abstractmethod
    def cluster(self, drained: str = "") -> str:
        """Its documents; `drained`: the name of a node."""

    @abstractmethod
    def template(self) -> Mapping[str, Any]:
        """What a replica's template says of this place."""

    @abstractmethod
    def receiver(self) -> socket.socket:
        """For datagrams of replicas; they reach its address."""

    @abstractmethod
    def kernels(self) -> int:
        """How many there are for the provider, whether they run or not."""

    @abstractmethod
    def tidy(self, repo: Repo) -> None:
        """Nothing of the repository is left then."""


class ProcessGround(ServiceGround):
    listen = "127.0.0.1"
    nodes = ("localhost",)

    def repo(self, folder: Path) -> Repo:
        made = new_repo(folder)
        self._root = Path(made.env["BAI_PROCESS_ROOT"])
        return made

    def cluster(self, drained: str = "") -> str:
        if not drained:
            return CLUSTER
        return CLUSTER.replace("address: localhost}", "address: localhost, state: drained}")

    def template(self) -> Mapping[str, Any]:
        return {}

    def receiver(self) -> socket.socket:
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        made.bind(("127.0.0.1", 0))
        return made

    def kernels(self) -> int:
        return len(list(self._root.glob("kernels/*")))

    def tidy(self, repo: Repo) -> None:
        tidy(repo)


class DockerGround(ServiceGround):
    """Containers tell on the network of the nodes, which is not this machine's."""

    listen = "0.0.0.0"

    def __init__(self, folder: Path) -> None:
        """`folder` becomes the lab's. Raises LabUnavailable."""
        root = python_root()
        lab = DockerLab(folder, NODES, port=free_port(), swarm=False)
        self.engines: dict[str, Engine] = {each.name: each for each in lab.engines}
        self.nodes = tuple(self.engines)
        self.environment = {"BAI_SECRET_STORES": str(lab.stores), "HOME": str(folder.parent)}
        self._lab = lab
        for each in lab.engines:
            each.take(root, _PYTHON)

    def repo(self, folder: Path) -> Repo:
        made = new_repo(folder)
        made.env |= self.environment
        made.write("cluster.yaml", self.cluster())
        return made

    def cluster(self, drained: str = "") -> str:
        nodes = [self._node(*each, drained) for each in enumerate(self.engines.values(), 1)]
        base = _DOCKER_CLUSTER.format(port=self._lab.port)
        return "\n---\n".join([base, *map(json.dumps, nodes)])

    def _node(self, number: int, engine: Engine, drained: str) -> dict[str, Any]:
        spec = {
            "address": f"127.0.2.{number}", "resourceGroup": "all",
            "docker": {"socket": engine.socket, "init": True},
            "hardware": {"numaNodes": [{"id": 0, "cpus": "0-1", "memory": "4GiB"}]},
            "state": "drained" if engine.name == drained else "active",
        }  # fmt: skip
        return {"apiVersion": "bai/v1", "kind": "Node", "metadata": {"name": engine.name}, "spec": spec}

    def template(self) -> Mapping[str, Any]:
        return {"image": _PYTHON}

    def receiver(self) -> socket.socket:
        first = self._lab.engines[0]
        return receiving(first.namespace, first.address)

    def kernels(self) -> int:
        return sum(len(each.docker("ps", "-aq").split()) for each in self.engines.values())

    def replicas_on(self) -> Mapping[str, list[str]]:
        """Node → names of sessions with a running container, of those whose engine answers."""
        return {
            name: [
                line.rpartition("/")[2]
                for line in engine.docker("ps", "--format", '{{.Label "bai.resource"}}').splitlines()
            ]
            for name, engine in self.engines.items()
            if engine.answers()
        }

    def kill(self, replica: str) -> None:
        """Its container, which stays as it is until bai sees to it."""
        for engine in self.engines.values():
            said = engine.docker("ps", "-q", "--filter", f"label=bai.resource=Session/demo/{replica}")
            for container in said.split():
                engine.docker("kill", container)

    def fullest(self) -> str:
        """The node with the most of them."""
        counts = Counter({name: len(found) for name, found in self.replicas_on().items()})
        return counts.most_common(1)[0][0]

    def tidy(self, repo: Repo) -> None:
        try:
            for path in repo.root.glob("*.yaml"):
                if path.name != "cluster.yaml":
                    path.unlink()
            repo.write("cluster.yaml", self.cluster())
            repo("state", "unlock", "--yes")
            repo.ok("destroy", "--yes")
            assert self.kernels() == 0
        finally:
            for each in self.engines.values():
                each.wipe()

    def close(self) -> None:
        self._lab.close()


@contextmanager
def service_ground(name: str, folder: Path) -> Iterator[ServiceGround]:
    """`process` or `docker`. What cannot be had here skips the test, and says why."""
    if name == "process":
        yield ProcessGround()
        return
    lacks = docker.why_not() or sshd.why_not()
    yield from lent("docker", lambda: DockerGround(folder / "lab"), lacks)
