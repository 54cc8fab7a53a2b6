"""Kubernetes as a user tries it: the example of two nodes, and docs/kubernetes.md from zero to a session."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.examples.guide import script
from tests.examples.user import User
from tests.harness.scripted_bai import scripted_bai
from tests.lab.kubernetes.api import CORE, RESOURCE
from tests.lab.kubernetes.kubernetes_lab import MANIFEST, permit
from tests.lab.kubernetes.lab import Kubernetes
from tests.waiting import until

pytestmark = [pytest.mark.xdist_group("kubernetes-sessions"), pytest.mark.slow]
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def lab(kubernetes: Kubernetes) -> Iterator[Kubernetes]:
    """With the namespace and the permissions of the manifest."""
    kubernetes.pair()
    with permit(kubernetes):
        yield kubernetes


def sessions(user: User) -> dict[str, dict[str, Any]]:
    found = json.loads(user.bai("get", "sessions", "--format", "json"))["items"]
    return {each["id"].rpartition("/")[2]: each for each in found}


@pytest.mark.parametrize("user", ["clusters/kubernetes-lab"], indirect=True)
def test_everything_runs_as_planned(user: User, lab: Kubernetes) -> None:
    user.environment["KUBECONFIG"] = str(lab.kubeconfig)
    plan = user.plan()
    user.bai("apply", "--yes")

    def phases() -> dict[str, str]:
        return {name: one["phase"] for name, one in sessions(user).items()}

    wanted = {"shell": "RUNNING", "hello": "RUNNING"}
    wanted |= dict.fromkeys(("which", "pair", "writes", "reads"), "TERMINATED")
    until(lambda: phases() == wanted, lambda: user.bai("get", "sessions"), pause=0.5)
    ended = sessions(user)
    assert (ended["which"]["result"], ended["pair"]["result"]) == ("success", "success")
    assert user.bai("logs", "pair") == "greetings from sub1\n"
    assert user.bai("logs", "reads").startswith("written by writes on ")
    assert "1GiB" in user.bai("volumes")
    (part,) = _placed(plan, "which")
    seen = [int(name.removeprefix("nvidia")) for name in user.bai("logs", "which").split()]
    assert seen == sorted(_minor(lab, part["node"], device["id"]) for device in part["devices"])
    assert user.bai("exec", "shell", "--", "hostname") == "main1\n"
    assert {one["verb"] for one in user.plan()["actions"]} == {"no-op"}
    user.bai("destroy", "--yes")
    assert lab.api.get(f"{CORE}/namespaces/bai/pods")["items"] == []
    assert lab.api.get(f"{RESOURCE}/namespaces/bai/resourceclaims")["items"] == []


def _placed(plan: dict[str, Any], session: str) -> list[dict[str, Any]]:
    action = next(one for one in plan["actions"] if one["id"] == f"Session/lab/{session}")
    found: list[dict[str, Any]] = action["after"]["placement"]["kernels"]
    return found


def _minor(lab: Kubernetes, node: str, uuid: str) -> int:
    """The number of a GPU's device node, as its driver publishes it."""
    for one in lab.api.get(f"{RESOURCE}/resourceslices")["items"]:
        for device in one["spec"].get("devices", ()) if one["spec"].get("nodeName") == node else ():
            if device["attributes"]["uuid"]["string"] == uuid:
                return int(device["name"].removeprefix("gpu-"))
    raise AssertionError(uuid)


def test_from_zero_to_a_session(lab: Kubernetes, tmp_path: Path) -> None:
    """The page's documents and commands, in their order."""
    page = (ROOT / "docs" / "kubernetes.md").read_text(encoding="utf-8")
    part = re.sub(r"(?m)^    ", "", page[page.index("## From zero") : page.index("`KUBECONFIG` (or")])
    home = tmp_path / "home"
    home.mkdir()
    part = part.replace("deploy/kubernetes/rbac.yaml", str(MANIFEST))
    for number, block in enumerate(re.findall(r"```yaml\n(.*?)```", part, re.DOTALL)):
        (home / f"{number}.yaml").write_text(block.replace("registry.example/pytorch:2.4", "bai-lab:1"))
    config = yaml.safe_load(lab.kubeconfig.read_text())
    config["contexts"][0]["name"] = config["current-context"] = "prod"
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
    environment = {
        "HOME": str(home), "KUBECONFIG": str(tmp_path / "kubeconfig"), "NO_COLOR": "1", "COLUMNS": "200",
        "PATH": f"{Path(sys.executable).parent}:{lab.programs}:{os.environ['PATH']}", "LANG": "C.UTF-8",
        "BAI_PROCESS_ROOT": str(tmp_path / "machine"),
    }  # fmt: skip
    with scripted_bai(environment) as programs:
        environment["PATH"] = f"{programs}:{environment['PATH']}"
        done = subprocess.run(
            ["bash", "-c", script(part)], cwd=home, env=environment, text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=900, check=False,
        )  # fmt: skip
    assert done.returncode == 0 and done.stdout.rstrip().endswith("=== all done"), done.stdout
    assert "on GPU-" in done.stdout and "BAI_SESSION=Session/vision/train" in done.stdout, done.stdout
