"""The benchmarks' commands and the fields of their JSON, on a small input."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest


def run(module: str, *arguments: str) -> None:
    """In this process, which has imported most of it already."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [module, *arguments])
        import_module(module).main()


def test_openb_online(tmp_path: Path) -> None:
    nodes, pods, order, out = (tmp_path / name for name in ("nodes.csv", "pods.csv", "order.npy", "out.json"))
    nodes.write_text(
        "sn,cpu_milli,memory_mib,gpu,model\n" + "".join(f"n{at},16000,65536,2,T4\n" for at in range(3))
    )
    pods.write_text(
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"
        "p0,1000,1024,1,500,\np1,2000,1024,2,1000,T4|V100\np2,1000,1024,1,1000,A100\np3,1000,1024,0,0,\n"
    )
    np.save(order, np.array([0, 0, 1, 1, 2, 3, 0, 0]))
    for policy in ("least-fragmentation", "concentrated"):
        files = ("--nodes", str(nodes), "--pods", str(pods), "--arrivals", str(order))
        run("benchmarks.openb", *files, "--mode", "online", "--policy", policy, "--json", str(out))
        result = json.loads(out.read_text())
        assert result["allocated"]["130"] == 100.0, "the one pod for a model that is not there cannot count"
        assert set(result["allocated"]) == {"95", "100", "110", "120", "130"}
        assert {"fragmentation", "wall_s", "cpu_s"} <= result.keys()
        assert result["peer"]["name"] == "FGD" and result["peer"]["allocated"]["130"] == 100.0
    run("benchmarks.openb", *files, "--no-peer", "--json", str(out))
    assert "peer" not in json.loads(out.read_text())


def test_throughput(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    run("benchmarks.throughput", "--nodes", "20", "--sessions", "40", "--repeat", "1", "--json", str(out))
    result = json.loads(out.read_text())
    assert result["placed"] + result["waiting"] == 40 and result["decision_ms"] > 0
    assert {"peer_decision_ms", "ratio"} <= result.keys()
