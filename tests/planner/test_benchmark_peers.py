"""What the benchmarks compare the planner with: FGD against its definition, Backend.AI's manager where there
is one."""

from __future__ import annotations

import json
import math
import os
import random
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

import benchmarks.throughput
from benchmarks.openb_trace import MIB, Pod, read_nodes
from benchmarks.peers.fgd import Fgd, Kind, kind_of, typical
from planner.model.types import NodeInfo

NODES = ("16000,65536,2,T4", "16000,65536,2,V100", "64000,65536,8,V100", "8000,8192,4,T4", "32000,65536,0,")
PEER = os.environ.get("BAI_BENCH_PEER_PYTHON", "")


def cluster(tmp_path: Path) -> tuple[NodeInfo, ...]:
    path = tmp_path / "nodes.csv"
    rows = "".join(f"n{at},{NODES[at % len(NODES)]}\n" for at in range(15))
    path.write_text(f"sn,cpu_milli,memory_mib,gpu,model\n{rows}")
    return read_nodes(path)


def trace(seed: int) -> list[Pod]:
    chance = random.Random(seed)
    pods = []
    for at in range(250):
        gpus, milli = chance.choice([(0, 0), (1, 300), (1, 500), (1, 700), (1, 1000), (2, 1000), (4, 1000)])
        models = chance.choice([frozenset[str](), frozenset({"T4"}), frozenset({"T4", "V100"})])
        cpu, memory = chance.choice([1000, 3000, 6000]), chance.choice([1024, 6000]) * MIB
        pods.append(Pod(f"p{at}", cpu, memory, gpus, milli, models if gpus else frozenset()))
    return pods


class Plain:
    """One node, as the paper words it."""

    def __init__(self, node: NodeInfo) -> None:
        self.cpu = 1000 * len(node.hardware.numa_nodes[0].cpus)
        self.memory = node.hardware.numa_nodes[0].memory
        self.free = [1000] * len(node.hardware.gpus)
        self.model = node.hardware.gpus[0].model if node.hardware.gpus else ""

    def fits(self, kind: Kind) -> bool:
        enough = sum(free >= kind.milli for free in self.free) >= kind.gpus
        return enough and self.cpu >= kind.cpu and (not kind.models or self.model in kind.models)

    def fragmentation(self, kinds: dict[Kind, int]) -> Fraction:
        total = Fraction(0)
        for kind, count in kinds.items():
            lost = [free for free in self.free if not kind.gpus or not self.fits(kind) or free < kind.milli]
            total += count * sum(lost)
        return total / sum(kinds.values())

    def take(self, pod: Pod, devices: tuple[int, ...], sign: int = 1) -> None:
        self.cpu -= sign * pod.cpu
        self.memory -= sign * pod.memory
        for device in devices:
            self.free[device] -= sign * pod.gpu_milli

    def score(self, pod: Pod, kinds: dict[Kind, int]) -> tuple[int, tuple[int, ...]] | None:
        """Score and devices; None if the pod does not fit."""
        if not self.fits(kind_of(pod)) or self.memory < pod.memory:
            return None
        able = [at for at, free in enumerate(self.free) if free >= pod.gpu_milli]
        shared = 0 < pod.gpu_milli < 1000
        options = [(at,) for at in able] if shared else [tuple(able[: pod.gpus])]
        return max((self._after(pod, one, kinds), tuple(-at for at in one), one) for one in options)[::2]

    def _after(self, pod: Pod, devices: tuple[int, ...], kinds: dict[Kind, int]) -> int:
        before = self.fragmentation(kinds)
        self.take(pod, devices)
        less = before - self.fragmentation(kinds)
        self.take(pod, devices, -1)
        return math.floor(100 / (1 + math.exp(-float(less) / 1000)))


@pytest.mark.parametrize("seed", [1, 2])
def test_fgd_makes_the_choice_that_its_definition_asks_for(tmp_path: Path, seed: int) -> None:
    nodes, pods = cluster(tmp_path), trace(seed)
    policy, kinds = Fgd(nodes, pods), typical(pods)
    plain = [Plain(node) for node in nodes]
    outcomes = []
    for pod in pods:
        scores = [one.score(pod, kinds) for one in plain]
        best = max((score[0] for score in scores if score), default=None)
        expected = next(
            ((int(at), score[1]) for at in policy.order if (score := scores[at]) and score[0] == best), None
        )
        chosen = policy.choose(pod)
        assert chosen == expected
        outcomes.append(chosen is not None)
        if chosen:
            plain[chosen[0]].take(pod, chosen[1])
    assert any(outcomes) and not all(outcomes), "the trace fills the cluster"
    for at, one in enumerate(plain):
        assert min([one.cpu, one.memory, *one.free]) >= 0
        assert (policy.cpu[at], policy.memory[at]) == (one.cpu, one.memory)
        assert policy.gpu[at, : len(one.free)].tolist() == one.free


def test_fgd_is_deterministic_and_its_order_decides_ties(tmp_path: Path) -> None:
    nodes, pods = cluster(tmp_path), trace(3)
    first, again, other = (Fgd(nodes, pods, seed) for seed in (0, 0, 1))
    runs = [[policy.choose(pod) for pod in pods] for policy in (first, again, other)]
    assert runs[0] == runs[1] != runs[2]


def test_typical_requests_cover_95_percent_most_frequent_first() -> None:
    common, second, rare = (
        Pod(name, cpu, MIB, 1, 1000, frozenset()) for name, cpu in (("a", 1000), ("b", 2000), ("c", 3000))
    )
    assert typical([rare] * 4 + [common] * 90 + [second] * 6) == {kind_of(common): 90, kind_of(second): 6}


Measured = Callable[[str], tuple[dict[str, object], str]]
"""By the peer's interpreter: the fields of the JSON, and what was printed."""


@pytest.fixture
def throughput(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Measured:
    def measured(python: str) -> tuple[dict[str, object], str]:
        out = tmp_path / "out.json"
        words = ["--nodes", "4", "--sessions", "40", "--repeat", "1", "--peer-python", python]
        monkeypatch.setattr(sys, "argv", ["throughput", *words, "--json", str(out)])
        benchmarks.throughput.main()
        return json.loads(out.read_text()), capsys.readouterr().out

    return measured


@pytest.mark.parametrize("python", ["", "/nowhere/python", sys.executable])
def test_a_missing_peer_is_named_and_its_fields_are_null(throughput: Measured, python: str) -> None:
    result, printed = throughput(python)
    assert result["peer_decision_ms"] is None and result["ratio"] is None
    assert "was not measured: " in printed
    assert python in printed


@pytest.mark.skipif(not PEER, reason="BAI_BENCH_PEER_PYTHON names no interpreter with backend.ai-manager")
def test_the_peer_places_as_many_of_the_same_sessions(throughput: Measured) -> None:
    result, _ = throughput(PEER)
    assert isinstance(result["peer"], dict) and result["peer"]["placed"] == result["placed"]
    assert isinstance(result["ratio"], float) and result["ratio"] > 0
