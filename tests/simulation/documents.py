"""Random repositories: two or three small machines and a handful of sessions that change all the time."""

from __future__ import annotations

import json
import random
from functools import partial
from typing import Any

from reconciler.sources.desired import DesiredCache, make_desired
from reconciler.values.state import Desired
from schemas.hardware.model import Gpu, Hardware, NumaNode
from schemas.kinds.kind_registry import KINDS
from schemas.kinds.node import Node
from schemas.repository.repository import Repository
from schemas.values.envelope import Resource
from schemas.values.memo import Memo
from tests.simulation.services import ServiceDocuments

CLUSTER, REPO = "sim", "5eed5eed5eed5eed"
GIB = 1 << 30


def _machine(numa_nodes: int, cores: int, gpus: int) -> Hardware:
    return Hardware(
        numa_nodes=tuple(
            NumaNode(id=n, cpus=tuple(range(n * cores, (n + 1) * cores)), memory=8 * GIB)
            for n in range(numa_nodes)
        ),
        gpus=tuple(
            Gpu(id=f"GPU-{n}-{g}", index=n * gpus + g, numa_node=n, memory=GIB)
            for n in range(numa_nodes)
            for g in range(gpus)
        ),
    )


IDLE = {"after": "200s", "metric": "cpu-utilization", "grace": "0s"}
MACHINES = {"n1": _machine(2, 4, 2), "n2": _machine(1, 4, 1), "n3": _machine(2, 2, 0)}


def _envelope(kind: str, name: str, spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "bai/v1", "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}


FIXED = (
    _envelope("Cluster", CLUSTER, {"provider": "fake"}),
    _envelope("Domain", "d", {}),
    _envelope("Project", "p", {"domain": "d"}),
)


class Documents:
    """What the repository says now. `change` edits it as people do. `services`: those that there are beside
    sessions."""

    def __init__(self, rng: random.Random, services: ServiceDocuments | None = None) -> None:
        self.rng, self.services = rng, services
        self.queue = rng.choice(["fifo", "lifo", "drf"])
        self.selection = rng.choice(["concentrated", "dispersed"])
        self.loss = rng.choice(["wait", "reschedule"])
        """One policy for a whole life: under `wait` nothing ever lives twice, seen or not."""
        self.nodes = {name: "active" for name in rng.sample(sorted(MACHINES), rng.choice([1, 2, 2, 3]))}
        self.sessions: dict[str, dict[str, Any]] = {}
        self._made: tuple[str, Desired] | None = None
        self._known: Memo[str, Resource] = Memo()
        self._cache = DesiredCache()
        for _ in range(rng.randint(1, 4)):
            self._add()

    def change(self) -> None:
        """One to three edits."""
        edits = [self._add, self._add, self._delete, self._edit, self._edit, self._resize, self._node]
        for _ in range(self.rng.randint(1, 3)):
            self.rng.choice(edits)()
        if self.services is not None:
            self.services.change()

    def restore(self, identity: str, document: dict[str, Any]) -> None:
        """Put back what was deleted."""
        self.sessions[identity.rpartition("/")[2]] = document

    def activate(self) -> None:
        """All nodes take sessions again."""
        self.nodes = dict.fromkeys(self.nodes, "active")

    @property
    def text(self) -> str:
        services = self.services.documents if self.services is not None else {}
        return json.dumps([self.nodes, self.sessions, services], sort_keys=True)

    def desired(self) -> Desired:
        said = self.text
        if self._made is None or self._made[0] != said:
            self._known.begin()
            self._made = said, self._desired(self._known, self._cache)
        return self._made[1]

    def made_anew(self) -> Desired:
        """The same, of nothing that was there before."""
        return self._desired(Memo(), DesiredCache())

    def _desired(self, known: Memo[str, Resource], cache: DesiredCache) -> Desired:
        documents = [
            *FIXED,
            _envelope("ResourceGroup", "g", self._group()),
            *(self._machine(name, state) for name, state in self.nodes.items()),
            *self.sessions.values(),
            *(self.services.documents.values() if self.services is not None else ()),
        ]
        resources = {}
        for document in documents:
            said = json.dumps(document, sort_keys=True)
            item: Resource = known.get(
                said, (), partial(KINDS[document["kind"]].model_validate, json.loads(said))
            )
            resources[item.identity] = item
        machines = {f"Node/{name}": self._with_hardware(resources[f"Node/{name}"]) for name in self.nodes}
        patterns = self.services.patterns() if self.services is not None else {}
        repository = Repository(
            resources=dict(sorted(resources.items())), locations={}, machines=machines, patterns=patterns
        )
        return make_desired(repository, CLUSTER, repo=REPO, commit="", cache=cache)

    def _group(self) -> dict[str, Any]:
        loss = {"after": "60s", "then": self.loss}
        return {"queue": self.queue, "selection": self.selection, "nodeLoss": loss}

    @staticmethod
    def _machine(name: str, state: str) -> dict[str, Any]:
        """`forced` is drained, whoever minds."""
        if state == "forced":
            return _envelope("Node", name, {"state": "drained", "drain": {"force": True}})
        return _envelope("Node", name, {"state": state})

    @staticmethod
    def _with_hardware(node: Any) -> Node:
        spec = node.spec.model_copy(update={"hardware": MACHINES[node.name]})
        made: Node = node.model_copy(update={"spec": spec})
        return made

    def _add(self) -> None:
        name = f"s{self.rng.randint(1, 7)}"
        if name not in self.sessions:
            self.sessions[name] = self._session(name)

    def _delete(self) -> None:
        if self.sessions:
            gone = self.rng.choice(sorted(self.sessions))
            if not any(f"Session/p/{gone}" in each["spec"]["dependsOn"] for each in self.sessions.values()):
                del self.sessions[gone]

    def _edit(self) -> None:
        """A field that forces a replacement, one that does not, or the guard."""
        if not self.sessions:
            return
        document = self.sessions[self.rng.choice(sorted(self.sessions))]
        kind = self.rng.randrange(4)
        if kind == 0:
            document["spec"]["env"] = {"VALUE": str(self.rng.randrange(1000))}
        elif kind == 1:
            document["spec"]["priority"] = self.rng.randrange(20)
        elif kind == 2:
            document["metadata"]["labels"] = {"version": str(self.rng.randrange(1000))}
        else:
            document["metadata"]["annotations"] = self._annotations()

    def _resize(self) -> None:
        if self.sessions:
            spec = self.sessions[self.rng.choice(sorted(self.sessions))]["spec"]
            spec["resources"] = self._resources()
            if self.rng.random() < 0.3:
                spec["cluster"] = self._layout()

    def _node(self) -> None:
        name = self.rng.choice(sorted(self.nodes))
        self.nodes[name] = self.rng.choice(["active", "active", "cordoned", "drained", "forced"])

    def _session(self, name: str) -> dict[str, Any]:
        rng = self.rng
        earlier = [other for other in sorted(self.sessions) if other < name]
        spec = {
            "type": rng.choice(["interactive", "interactive", "batch"]),
            "command": ["work"],
            "resources": self._resources(),
            "cluster": self._layout(),
            "restart": {"policy": rng.choice(["never", "never", "on-failure", "always"])},
            "movable": rng.random() < 0.3,
            "timeout": rng.choice([None, None, None, "300s", "1000s"]),
            "idle": rng.choice([None, None, IDLE]),
            "dependsOn": [f"Session/p/{rng.choice(earlier)}"] if earlier and rng.random() < 0.2 else [],
        }
        if self.services is not None:
            spec["preemptible"] = rng.random() < 0.5
        return _envelope("Session", name, spec, project="p", annotations=self._annotations())

    def _annotations(self) -> dict[str, str]:
        return {"bai/protect": "true"} if self.rng.random() < 0.15 else {}

    def _layout(self) -> dict[str, Any]:
        mode = self.rng.choice(["single-node", "multi-node"])
        subs = self.rng.choice([0, 0, 0, 1, 2])
        return {"mode": mode, "roles": {"main": 1, "sub": subs} if subs else {"main": 1}}

    def _resources(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "cpu": self.rng.choice([1, 1, 2, 3, "500m"]),
            "memory": f"{self.rng.choice([1, 1, 2, 4])}GiB",
        }
        if self.rng.random() < 0.4:
            found["cuda.device"] = self.rng.choice([1, 1, 2])
        return found
