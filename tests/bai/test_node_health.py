"""Health from the command line: a GPU that fails goes out of placement, is said loudly, and comes back.

The GPUs are a stand-in: a compiled libnvidia-ml.so.1 answers from a file that the test changes. Everything
else is real: the node is this machine, probed and asked as any other, and sessions run on it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from providers.machines.connections import close_connections as disconnect
from providers.machines.local import LocalMachine
from providers.probe.remote import probe
from reconciler.controller.loop import Loop
from reconciler.controller.loop_options import LoopOptions
from reconciler.observe import hardware
from reconciler.observe.health import forget_health
from reconciler.workspace.workspace import Workspace
from tests.bai.conftest import Repo, Said, new_repo, tidy
from tests.lab import nvml
from tests.lab.sshd import SshdNodes

pytestmark = pytest.mark.slow

GIB = 1 << 30


def facts(**first: Any) -> dict[str, Any]:
    """Two GPUs that are well, the first one as told."""
    well = {
        "name": "NVIDIA H100 80GB HBM3",
        "memory": 80 * GIB,
        "persistence": 1,
        "width": 16,
        "widthMost": 16,
    }
    return {
        "driver": "550.90.07",
        "cuda": 12040,
        "count": 2,
        "gpu": {
            0: {"uuid": "GPU-aaaa", "pci": "00000000:41:00.0", **well, **first},
            1: {"uuid": "GPU-bbbb", "pci": "00000000:61:00.0", **well},
        },
    }


@dataclass
class Gpus:
    """A repository of one node, this machine, with GPUs that the test decides about."""

    repo: Repo
    file: Path

    def tell(self, **first: Any) -> None:
        """Change what the driver says, and let a minute pass."""
        self.file.write_text(nvml.lines(facts(**first)))
        forget_health()

    def __call__(self, *words: str) -> Said:
        return self.repo(*words)

    def ok(self, *words: str) -> Said:
        return self.repo.ok(*words)

    def session(self, name: str, gpus: int) -> None:
        path = self.repo.session(name, "sleep", "1000")
        path.write_text(path.read_text().replace("64MiB", f"64MiB, cuda.device: {gpus}"))

    def given(self, name: str) -> list[str]:
        [item] = self.ok("get", "sessions", name, "--format", "json").json["items"]
        return [grant["id"] for kernel in item["kernels"] for grant in kernel["devices"]]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gpus]:
    made = Gpus(new_repo(tmp_path), tmp_path / "facts")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(nvml.library()))
    monkeypatch.setenv("FAKE_NVML", str(made.file))
    # A process that runs does not look for libraries elsewhere: its own probe is made by a child.
    monkeypatch.setattr(hardware, "_probe_local", lambda: probe(LocalMachine("here")))
    made.tell()
    yield made
    tidy(made.repo)
    forget_health()  # Others' node is this machine, too.


def test_a_gpu_that_fails_takes_nothing_new_and_comes_back(here: Gpus) -> None:
    here.session("first", 1)
    here.ok("apply", "--yes")
    assert here.given("first") == ["GPU-aaaa"]

    here.tell(rows={"failed": 0, "pending": 1})
    here.session("second", 2)
    plan = here("plan").out
    assert "GPU 0 of localhost is out of placement: row remapping is pending" in plan
    assert "first" in plan and "holds gpu 0 of localhost, which gets no new sessions" in plan
    why = here.ok("explain", "second").out
    assert "GPU 0 of localhost is out of placement: row remapping is pending" in why
    shown = here.ok("nodes", "show", "localhost").out
    assert "GPU 0 of localhost is out of placement: row remapping is pending" in shown
    said = here("nodes", "check")
    assert said.code == 1
    assert "localhost: critical: gpu 0: row remapping is pending (gpu-rows-pending)" in said.out
    assert "nvidia-smi --gpu-reset -i 0" in said.out

    here.session("second", 1)
    here.ok("apply", "--yes")
    assert here.given("second") == ["GPU-bbbb"], "it goes to the one that is left"
    assert here.given("first") == ["GPU-aaaa"], "what runs there is left alone"

    here.tell()
    plan = here("plan").out
    assert "out of placement" not in plan and "holds gpu" not in plan
    (here.repo.root / "first.yaml").unlink()
    here.session("third", 1)
    here.ok("apply", "--yes")
    assert here.given("third") == ["GPU-aaaa"], "it is well again and is given again"


def test_a_session_that_is_started_anew_leaves_the_gpu_that_failed(here: Gpus) -> None:
    here.session("one", 1)
    here.ok("apply", "--yes")
    assert here.given("one") == ["GPU-aaaa"]
    here.tell(rows={"failed": 1, "pending": 0})
    plan = here("plan").out
    assert "holds gpu 0 of localhost" in plan and "No changes" in plan
    here.ok("apply", "--yes", "--replace", "Session/demo/one")
    assert here.given("one") == ["GPU-bbbb"]


def test_health_as_json_with_values(here: Gpus) -> None:
    here("plan")
    here.ok("apply", "--yes")
    here.tell(temperature=31, ecc={1: {0: 2}})
    found = here("nodes", "check", "--format", "json").json
    [node] = found["nodes"]
    assert node["health"]["severity"] == "critical"
    assert node["health"]["unfit"] == {"GPU-aaaa": "2 uncorrected ECC errors since the driver was loaded"}
    codes = {one["code"]: one for one in node["health"]["findings"]}
    assert codes["gpu-ecc-uncorrected"]["device"] == "GPU-aaaa"
    labels = {"node": "localhost", "gpu": "0", "uuid": "GPU-aaaa"}
    assert {"name": "bai_gpu_usable", "labels": labels, "value": 0.0} in found["metrics"]
    assert {"name": "bai_gpu_temperature_celsius", "labels": labels, "value": 31.0} in found["metrics"]
    shown = here.ok("nodes", "show", "localhost", "--format", "json").json
    assert shown["health"]["unfit"].keys() == {"GPU-aaaa"}


def test_a_saved_plan_does_not_start_on_a_gpu_that_has_failed_since(here: Gpus, tmp_path: Path) -> None:
    saved = str(tmp_path / "plan.json")
    here.session("s", 1)
    here.ok("plan", "--out", saved)
    here.tell(rows={"failed": 1, "pending": 0})
    said = here("apply", saved)
    assert said.code == 1
    assert "Session/demo/s would start on gpu 0 of localhost, which is out of placement now" in said.err
    assert "row remapping failed" in said.err
    assert here.ok("get", "sessions").out.count("RUNNING") == 0
    here.tell()
    here.ok("apply", saved)
    assert here.ok("get", "sessions").out.count("RUNNING") == 1


def test_the_loop_says_it_once_and_when_it_is_over(here: Gpus, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    for name, value in here.repo.env.items():
        monkeypatch.setenv(name, value)
    with Workspace.open(here.repo.root) as workspace:
        loop = Loop(workspace, LoopOptions("test", 60.0), log=lines.append)
        loop.once()
        assert not [line for line in lines if "placement" in line]
        here.tell(rows={"failed": 1, "pending": 0})
        loop.once()
        forget_health()
        loop.once()
        assert [line for line in lines if "placement" in line] == [
            "warning: GPU 0 of localhost is out of placement: row remapping failed"
        ]
        here.tell()
        loop.once()
        assert lines[-1] == "gpu 0 of localhost is in placement again"


@pytest.mark.xdist_group("sshd")
def test_far_nodes_are_checked_by_the_driver_there(
    tmp_path: Path, sshd_nodes: SshdNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    disconnect()
    file = tmp_path / "there"
    file.write_text(nvml.lines(facts()))
    # sshd heeds one SetEnv: what it usually sets goes along.
    setting = f"SetEnv HOME={sshd_nodes.home} LD_LIBRARY_PATH={nvml.library()} FAKE_NVML={file}"
    node = sshd_nodes.private(setting)
    root = tmp_path / "repository"
    root.mkdir()
    repo = Repo(
        root,
        {
            "COLUMNS": "120",
            "XDG_STATE_HOME": str(tmp_path),
            "BAI_SECRET_STORES": str(sshd_nodes.stores),
        },
    )
    ssh = "{user: root, keyFrom: lab/key, knownHostsFrom: lab/known_hosts, connectTimeout: 60s}"
    repo.write(
        "cluster.yaml",
        "apiVersion: bai/v1\nkind: Cluster\nmetadata: {name: far}\n"
        f"spec: {{provider: declared, ssh: {ssh}}}\n"
        "---\napiVersion: bai/v1\nkind: ResourceGroup\nmetadata: {name: all}\nspec: {}\n"
        "---\napiVersion: bai/v1\nkind: Node\n"
        f"metadata: {{name: gpu-01}}\nspec: {{address: {node.address}}}\n",
    )
    assert [one["id"] for one in json.loads(repo.ok("nodes", "probe", "gpu-01").out)["gpus"]] == [
        "GPU-aaaa", "GPU-bbbb",
    ]  # fmt: skip
    before = {
        one["code"]
        for one in repo("nodes", "check", "--format", "json").json["nodes"][0]["health"]["findings"]
    }
    file.write_text(nvml.lines({**facts(), "count": 1}))
    said = repo("nodes", "check", "gpu-01")
    assert said.code == 1
    assert "gpu-01: critical: gpu 1: it is recorded and not found (gpu-missing)" in said.out
    assert "gpu-missing" not in before
    disconnect()
