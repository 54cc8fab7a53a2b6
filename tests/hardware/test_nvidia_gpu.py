"""Sessions on a real NVIDIA GPU: what its driver, its counters and its log say, and what PyTorch makes of it.

Skipped where there is none. No setting of the card is changed.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu import probe, shares
from tests.bai.conftest import Repo, new_repo
from tests.hardware.programs import AFFINITY, CRASH, TRAINING
from tests.waiting import until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("nvidia"),
    pytest.mark.skipif(not probe.listed(), reason="there is no NVIDIA GPU on this machine"),
]
LOAD = shares.CUDA.program
CLUSTER = """\
apiVersion: bai/v1
kind: Cluster
metadata: {name: here}
spec: {provider: process}
---
apiVersion: bai/v1
kind: Node
metadata: {name: localhost}
spec: {resourceGroup: gpus, address: localhost}
---
apiVersion: bai/v1
kind: ResourceGroup
metadata: {name: gpus}
spec: {fractional: {enforcement: mps}, preemption: {mode: priority, minimumRunTime: 0s, grace: 5s}}
---
apiVersion: bai/v1
kind: Project
metadata: {name: demo}
---
apiVersion: bai/v1
kind: Project
metadata: {name: other}
---
apiVersion: bai/v1
kind: StorageHost
metadata: {name: disk}
spec: {root: FOLDER/disk}
---
apiVersion: bai/v1
kind: Volume
metadata: {name: ckpt, project: demo}
"""
PATIENCE = 180.0


@pytest.fixture
def gpu() -> Iterator[Repo]:
    """This machine as a cluster, in a folder with a short name, as sockets' are; what happened is printed,
    for a test that fails."""
    with tempfile.TemporaryDirectory(prefix="bai-gpu-") as name:
        folder = Path(name)
        repo = new_repo(folder)
        (folder / "disk" / "ckpt").mkdir(parents=True)
        repo.write("cluster.yaml", CLUSTER.replace("FOLDER", str(folder)))
        yield repo
        _clear(repo)


def _clear(repo: Repo) -> None:
    print(repo("history").out, repo("events").out)
    for path in repo.root.glob("*.yaml"):
        if path.name != "cluster.yaml":
            path.unlink()
    repo.ok("destroy", "--yes")
    assert list(Path(repo.env["BAI_PROCESS_ROOT"]).glob("kernels/*")) == []


@pytest.fixture
def torch() -> str:
    """A Python that has PyTorch, which sessions see, too."""
    for python in dict.fromkeys((sys.executable, shutil.which("python3") or "")):
        if python.startswith(("/usr/", "/opt/")):
            seen = subprocess.run([python, "-c", "import torch"], capture_output=True, check=False)
            if seen.returncode == 0:
                return python
    pytest.skip("no Python below /usr or /opt has PyTorch")


def session(
    repo: Repo,
    name: str,
    *command: str,
    amount: str = "cuda.device: 1",
    project: str = "demo",
    extra: str = "",
) -> None:
    env = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
    repo.write(
        f"{name}.yaml",
        "apiVersion: bai/v1\nkind: Session\n"
        f"metadata: {{name: {name}, project: {project}}}\n"
        f"spec:\n  type: batch\n  command: {json.dumps(list(command))}\n  env: {json.dumps(env)}\n"
        + ("" if "resources:" in extra else f"  resources: {{cpu: 1, memory: 4GiB, {amount}}}\n")
        + extra,
    )


def item(repo: Repo, name: str) -> dict[str, Any]:
    found: dict[str, Any] = repo.ok("get", "sessions", name, "--format", "json").json["items"][0]
    return found


def has_ended(repo: Repo, name: str) -> None:
    until(lambda: item(repo, name).get("phase") == "TERMINATED", f"{name} has ended", seconds=PATIENCE)


@pytest.fixture
def loop(gpu: Repo, tmp_path: Path) -> Iterator[Path]:
    """A reconcile loop; its log."""
    log = tmp_path / "loop.log"
    with log.open("a") as out:
        running = gpu.start("reconcile", "--interval", "1s", stdout=out, stderr=subprocess.STDOUT)
    try:
        yield log
    finally:
        running.send_signal(signal.SIGTERM)
        code = running.wait(60)
        print(log.read_text())
    assert code == 0


def test_a_part_is_seen_to_hold_before_it_is_given(gpu: Repo) -> None:
    said = gpu.ok("nodes", "check", "--enforcement")
    assert "mps" in said.out and "held" in said.out, said.out


def test_two_projects_compute_on_one_gpu_at_the_same_time(gpu: Repo) -> None:
    if os.geteuid():
        pytest.skip("projects are users of their own only where bai is root")
    program = LOAD.read_text()
    at = time.time() + 20
    for project, share in (("demo", 0.5), ("other", 0.25)):
        measure = ("python3", "-c", program, "--seconds", "8", "--at", str(at))
        session(gpu, f"{project}-part", "sh", "-c", 'id -u; exec "$@"', "sh", *measure,
                amount=f"cuda.shares: {share}", project=project)  # fmt: skip
    gpu.ok("apply", "--yes")
    users, rates = set(), {}
    for project in ("demo", "other"):
        name = f"{project}/{project}-part"
        has_ended(gpu, name)
        user, found = gpu.ok("logs", name).out.strip().splitlines()
        users.add(user)
        rates[project] = json.loads(found)
    assert len(users) == 2
    assert all(each["late"] < 4 for each in rates.values()), rates
    assert rates["demo"]["multiprocessors"] > rates["other"]["multiprocessors"] > 0
    # Had one waited for the other, both would have had the time of their part alone.
    assert 1.5 < rates["demo"]["rate"] / rates["other"]["rate"] < 2.5, rates


def test_a_program_that_crashes_is_no_fault_of_the_gpu(gpu: Repo) -> None:
    session(gpu, "wild", "python3", "-c", CRASH)
    gpu.ok("apply", "--yes")
    has_ended(gpu, "wild")
    assert "main1 exited with 7" in gpu.ok("get", "wild").out, gpu.ok("logs", "wild").out
    found = gpu.ok("nodes", "check", "localhost", "--format", "json")
    assert '"gpu-xid-application"' in found.out, found.out
    session(gpu, "next", "python3", "-c", LOAD.read_text(), "--seconds", "1")
    gpu.ok("apply", "--yes")
    has_ended(gpu, "next")
    assert json.loads(gpu.ok("logs", "next").out)["rate"] > 0


def test_who_leaves_a_gpu_idle_is_stopped_and_who_uses_it_is_not(gpu: Repo, loop: Path) -> None:
    text = (
        f"{LOAD.read_text().partition('if __name__')[0]}\nmain()\nprint('quiet', flush=True)\ntime.sleep(900)"
    )
    rule = "  idle: {after: 15s, metric: gpu-utilization, below: 5%, grace: 1s}\n"
    session(gpu, "first-busy", "python3", "-c", text, "--seconds", "40", extra=rule)
    until(lambda: "RUNNING" in gpu("get", "first-busy").out, "it runs", seconds=PATIENCE)

    def busiest() -> bool:
        looked = gpu("top", "--once", "--format", "json")
        return looked.code == 0 and any((each["gpuPercent"] or 0) > 90 for each in looked.json["kernels"])

    until(busiest, lambda: gpu("top", "--once", "--format", "json").out, seconds=PATIENCE)
    has_ended(gpu, "first-busy")
    assert "quiet" in gpu.ok("logs", "first-busy").out
    events = gpu.ok("events", "first-busy").out
    assert "idle since" in events and "gpu-utilization" in events, events


def test_a_training_that_was_pushed_out_goes_on_from_its_checkpoint(
    gpu: Repo, loop: Path, torch: str
) -> None:
    more = (
        "  priority: 1\n  preemptible: true\n  checkpoint: {signal: SIGUSR1, grace: 30s}\n"
        "  mounts: [{volume: ckpt, path: /home/work/ckpt}]\n"
    )
    session(gpu, "train", torch, "-u", "-c", TRAINING, "200", extra=more)
    until(lambda: "begins at 0" in gpu("logs", "train").out, "it trains", seconds=PATIENCE)
    session(gpu, "urgent", "python3", "-c", LOAD.read_text(), "--seconds", "3", extra="  priority: 90\n")
    has_ended(gpu, "urgent")
    assert json.loads(gpu.ok("logs", "urgent").out)["rate"] > 0
    until(lambda: "begins at" in gpu("logs", "train").out, "it trains again", seconds=PATIENCE)
    has_ended(gpu, "train")
    log = gpu.ok("logs", "train").out
    begun = int(log.partition("begins at ")[2].split()[0])
    assert begun > 0 and f"done at {max(200, begun + 20)}" in log, log
    assert "success" in gpu.ok("get", "train").out
    assert "pushed out" in gpu.ok("events", "train").out


def test_loaders_of_data_keep_all_cores_of_their_session(gpu: Repo, torch: str) -> None:
    resources = "  resources: {cpu: 4, memory: 8GiB, cuda.device: 1, shm: 1GiB}\n"
    session(gpu, "loaders", torch, "-c", AFFINITY, extra=resources)
    gpu.ok("apply", "--yes")
    has_ended(gpu, "loaders")
    said = gpu.ok("logs", "loaders").out
    assert "main 4 workers 4 threads 4" in said, said
