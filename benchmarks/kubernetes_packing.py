"""How full a cluster gets, and how near each other a session's GPUs are: bai against kube-scheduler.

    python -m benchmarks.kubernetes_packing --nodes 32 --rounds 24 --json result.json

Starts a real control plane of its own (see tests/lab; needs root and Go), whose nodes are simulated by kwok:
8 GPUs each, four on each of two NUMA nodes. The same sessions arrive in the same rounds for each scheduler:
one pod of 1, 2, 4 or 8 GPUs, or a gang of several, which computes when all of its pods are there. They want a
little more than there is, and each goes so many rounds after it has begun. All pods have resource claims;
those of kube-scheduler are plain, with cores in proportion to GPUs, which is what it scores nodes by.

By scheduler: `busy`, the part of all GPUs that sessions compute on, `held`, the part that gangs have which
are not complete, `gangs_waiting` (mean of a round), `waited` (mean rounds until a session begins), and
`one_numa`, the part of pods with 2 to 4 GPUs that have them on one NUMA node.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from benchmarks.kubernetes import NODE_GRACE
from benchmarks.kubernetes_repository import Repository, session
from benchmarks.results import parser_of, show
from providers.kubernetes.objects.names import PREFIX
from reconciler.workspace.workspace import Workspace
from tests.lab.docker import IMAGE
from tests.lab.kubernetes.api import CORE, RESOURCE
from tests.lab.kubernetes.gpus import DRIVER
from tests.lab.kubernetes.lab import Kubernetes
from tests.lab.kubernetes.needs import why_not

EACH, PER_NUMA = 8, 4
"""GPUs of a machine, and of each of its NUMA nodes."""
CORES = 8
"""For each GPU."""
SHAPES = {(1, 1): 40, (1, 2): 22, (1, 4): 14, (1, 8): 8, (2, 8): 6, (4, 4): 5, (4, 2): 5}
"""(pods, GPUs of each) → how often, in percent."""
WANTED = 1.1
"""What all want at once, in parts of what there is."""
QUIET = 3.0
"""Seconds without a pod bound after which kube-scheduler has placed all it can; it tries each second."""
SESSION = f"{PREFIX}session"
"""The label of a pod with its session's name."""
Placement = Mapping[str, Sequence[tuple[int, ...]]]
"""Session → GPUs of each of its pods that has a node."""


@dataclass(frozen=True)
class Arrival:
    name: str
    round: int
    pods: int
    gpus: int
    rounds: int
    """How long it computes."""


def arrivals(nodes: int, rounds: int, seed: int) -> tuple[Arrival, ...]:
    """So that WANTED would be in use if everybody began at once."""
    chance, found, ends = random.Random(seed), list[Arrival](), list[tuple[int, int]]()
    for now in range(rounds):
        ends = [(until, gpus) for until, gpus in ends if until > now]
        while sum(gpus for _, gpus in ends) < WANTED * nodes * EACH:
            ((pods, gpus),) = chance.choices(tuple(SHAPES), tuple(SHAPES.values()))
            lasts = chance.randint(2, 9)
            found.append(Arrival(f"s{len(found):04}", now, pods, gpus, lasts))
            ends.append((now + lasts, pods * gpus))
    return tuple(found)


class Scheduler(ABC):
    """Has sessions in a namespace."""

    def __init__(self, lab: Kubernetes, namespace: str) -> None:
        self.lab, self.namespace = lab, namespace

    @abstractmethod
    def change(self, new: Sequence[Arrival], over: Sequence[Arrival]) -> None:
        """Returns once all is placed that has room now."""

    def placed(self) -> Placement:
        """As the cluster has it: the devices of claims whose pods have a node."""
        claims = {each["metadata"]["name"]: each for each in self._items(RESOURCE, "resourceclaims")}
        found: dict[str, list[tuple[int, ...]]] = {}
        for pod in self._items(CORE, "pods"):
            if pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"]:
                named = [each["resourceClaimName"] for each in pod["spec"]["resourceClaims"]]
                results = [
                    result
                    for name in named
                    for result in claims[name]["status"]["allocation"]["devices"]["results"]
                ]
                gpus = tuple(int(each["device"].removeprefix("gpu-")) for each in results)
                found.setdefault(pod["metadata"]["labels"][SESSION], []).append(gpus)
        return found

    def _items(self, api: str, kind: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self.lab.api.get(f"{api}/namespaces/{self.namespace}/{kind}")["items"]
        return items


class Bai(Scheduler):
    """A folder of documents, planned and applied as anybody's."""

    def __init__(self, lab: Kubernetes, namespace: str, folder: Path, nodes: Sequence[str]) -> None:
        super().__init__(lab, namespace)
        os.environ["KUBECONFIG"] = str(lab.kubeconfig)
        self._repository = Repository(folder, namespace, nodes)

    def change(self, new: Sequence[Arrival], over: Sequence[Arrival]) -> None:
        for each in over:
            self._repository.take_out(each.name)
        for each in new:
            resources = {"cpu": CORES * each.gpus, "memory": "1GiB", "cuda.device": each.gpus}
            self._repository.write(each.name, session(each.name, resources, pods=each.pods))
        with Workspace.open(self._repository.folder) as workspace:
            result = workspace.apply(workspace.plan(), holder="benchmarks.kubernetes_packing")
        failed = [each.error for each in result.results if each.error]
        if failed:
            sys.exit("; ".join(failed))


class KubeScheduler(Scheduler):
    """Pods with claims, left to it."""

    def change(self, new: Sequence[Arrival], over: Sequence[Arrival]) -> None:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(self._delete, (name for each in over for name in _pods_of(each))))
            list(pool.map(lambda one: self._create(*one), ((n, e) for e in new for n in _pods_of(e))))
        bound, since = -1, time.monotonic()
        while time.monotonic() - since < QUIET:
            now = sum(bool(pod["spec"].get("nodeName")) for pod in self._items(CORE, "pods"))
            if now != bound:
                bound, since = now, time.monotonic()
            time.sleep(0.2)

    def _create(self, name: str, session: Arrival) -> None:
        exactly = {"deviceClassName": DRIVER, "count": session.gpus}
        about = {"name": name, "labels": {SESSION: session.name}}
        claim = {"metadata": about, "spec": {"devices": {"requests": [{"name": "gpus", "exactly": exactly}]}}}
        amounts = {"cpu": str(CORES * session.gpus), "memory": "1Gi"}
        container = {
            "name": "main", "image": IMAGE, "args": ["sleep", "infinity"],
            "resources": {"requests": amounts, "limits": amounts, "claims": [{"name": "gpus"}]},
        }  # fmt: skip
        spec = {
            "tolerations": [{"operator": "Exists"}],
            "resourceClaims": [{"name": "gpus", "resourceClaimName": name}],
            "containers": [container],
            "terminationGracePeriodSeconds": 0,
        }
        self.lab.api.create(self._path(RESOURCE, "resourceclaims"), claim)
        self.lab.api.create(self._path(CORE, "pods"), {"metadata": about, "spec": spec})

    def _delete(self, name: str) -> None:
        for api, kind in ((CORE, "pods"), (RESOURCE, "resourceclaims")):
            self.lab.api.delete(f"{self._path(api, kind)}/{name}")

    def _path(self, api: str, kind: str) -> str:
        return f"{api}/namespaces/{self.namespace}/{kind}"


def _pods_of(session: Arrival) -> Iterator[str]:
    return (f"{session.name}-{number}" for number in range(session.pods))


@dataclass
class Tally:
    """What is seen after each round."""

    gpus: int
    began: dict[str, int] = field(default_factory=dict)
    busy: list[float] = field(default_factory=list)
    held: list[float] = field(default_factory=list)
    gangs_waiting: list[int] = field(default_factory=list)
    numa: dict[tuple[str, int], bool] = field(default_factory=dict)

    def note(self, now: int, there: Sequence[Arrival], placed: Placement) -> None:
        whole = [each for each in there if len(placed.get(each.name, ())) == each.pods]
        used = sum(each.pods * each.gpus for each in whole)
        partly = sum(len(gpus) for each in there for gpus in placed.get(each.name, ())) - used
        self.busy.append(used / self.gpus)
        self.held.append(partly / self.gpus)
        self.gangs_waiting.append(sum(each.pods > 1 and each not in whole for each in there))
        for each in whole:
            self.began.setdefault(each.name, now)
            if 2 <= each.gpus <= PER_NUMA:
                for number, gpus in enumerate(placed[each.name]):
                    one = len({gpu // PER_NUMA for gpu in gpus}) == 1
                    self.numa.setdefault((each.name, number), one)

    def summary(self, all_: Sequence[Arrival], rounds: int) -> dict[str, Any]:
        waited = [self.began.get(each.name, rounds) - each.round for each in all_]
        return {
            "busy": _mean(self.busy),
            "held": _mean(self.held),
            "gangs_waiting": _mean(self.gangs_waiting),
            "waited": _mean(waited),
            "began": len(self.began),
            "one_numa": _mean(list(self.numa.values())),
        }


def _mean(values: Sequence[float]) -> float | None:
    return round(sum(values) / len(values), 3) if values else None


def played(scheduler: Scheduler, sessions: Sequence[Arrival], nodes: int, rounds: int) -> dict[str, Any]:
    tally, there, begin = Tally(nodes * EACH), list[Arrival](), time.perf_counter()
    for now in range(rounds):
        over = [each for each in there if now - tally.began.get(each.name, now) >= each.rounds]
        new = [each for each in sessions if each.round == now]
        scheduler.change(new, over)
        there = [each for each in there if each not in over] + new
        tally.note(now, there, scheduler.placed())
    return {**tally.summary(sessions, rounds), "seconds": round(time.perf_counter() - begin, 1)}


def measure(lab: Kubernetes, nodes: int, rounds: int, seed: int) -> dict[str, Any]:
    sessions = arrivals(nodes, rounds, seed)
    found: dict[str, Any] = {"nodes": nodes, "rounds": rounds, "sessions": len(sessions)}
    names = lab.kwok(nodes, EACH)
    with lab.namespace() as namespace, tempfile.TemporaryDirectory(prefix="bai-packing-") as folder:
        found["bai"] = played(Bai(lab, namespace, Path(folder), names), sessions, nodes, rounds)
    for strategy in ("MostAllocated", "LeastAllocated"):
        _score_by(lab, strategy)
        with lab.namespace() as namespace:
            found[strategy] = played(KubeScheduler(lab, namespace), sessions, nodes, rounds)
    return found


def _score_by(lab: Kubernetes, strategy: str) -> None:
    """Start kube-scheduler anew, so that it fills nodes or spreads over them."""
    plane = lab.control_plane
    file = plane.folder / "scheduler.yaml"
    resources = [{"name": "cpu", "weight": 1}]
    fit = {"scoringStrategy": {"type": strategy, "resources": resources}}
    plugins = [{"name": "NodeResourcesFit", "args": fit}]
    config = yaml.safe_load(file.read_text())
    config |= {
        "podInitialBackoffSeconds": 1,
        "podMaxBackoffSeconds": 1,
        "profiles": [{"schedulerName": "default-scheduler", "pluginConfig": plugins}],
    }
    file.write_text(yaml.safe_dump(config))
    plane.scheduler.stop()
    plane.scheduler.start()


def main() -> None:
    parser = parser_of("kubernetes_packing", __doc__)
    parser.add_argument("--nodes", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if reason := why_not():
        sys.exit(reason)
    lab = Kubernetes(NODE_GRACE)
    try:
        show(measure(lab, given.nodes, given.rounds, given.seed), given.json)
    finally:
        lab.close()


if __name__ == "__main__":
    main()
