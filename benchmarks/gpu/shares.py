"""Sessions with parts of one GPU, planned and applied as anybody's, and what they got."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from reconciler.values.plan_options import PlanOptions
from reconciler.workspace.workspace import Workspace
from schemas.hardware.model import Gpu

WAIT = 20.0
"""Seconds from applying until all multiply at the same time."""

CLUSTER = """\
apiVersion: bai/v1
kind: Cluster
metadata: {{name: bench}}
spec: {{provider: process, process: {{root: {root}/p{hami}}}}}
---
apiVersion: bai/v1
kind: Node
metadata: {{name: here}}
spec: {{address: localhost}}
---
apiVersion: bai/v1
kind: ResourceGroup
metadata: {{name: gpus}}
spec: {{fractional: {{enforcement: {means}}}}}
---
apiVersion: bai/v1
kind: Project
metadata: {{name: bench}}
---
apiVersion: bai/v1
kind: StorageHost
metadata: {{name: disk}}
spec: {{root: {root}/disk}}
---
apiVersion: bai/v1
kind: Volume
metadata: {{name: load}}
"""
SESSION = """\
apiVersion: bai/v1
kind: Session
metadata: {{name: {name}, project: bench}}
spec:
  type: batch
  command: {command}
  env: {env}
  resources: {{cpu: 1, memory: 4GiB, {slot}: {amount}}}
  mounts: [{{volume: load, path: /home/work/bench, readOnly: true}}]
"""


class NotMeasured(Exception):
    """Why something could not be measured, in words."""


@dataclass(frozen=True, slots=True)
class Load:
    """A program that measures what it gets, and prints that as JSON."""

    program: Path
    python: str
    """What runs it in a session; outside of one it is the Python of this process."""
    options: tuple[str, ...] = ()


CUDA = Load(Path(__file__).with_name("load.py"), "python3", ("--memory",))
TORCH = Load(Path(__file__).with_name("torch_load.py"), sys.executable)


@dataclass(frozen=True, slots=True)
class Part:
    """What one session asks for: a slot and an amount, which is this part of the GPU's memory and compute."""

    name: str
    slot: str
    amount: str
    memory: int
    compute: float


WHOLE = Part("whole", "cuda.device", "1", 0, 1.0)
"""All of one GPU, by one session."""


def alone(gpu: str, seconds: float, load: Load = CUDA) -> dict[str, float]:
    """The whole GPU, by one process without any limit. Raises NotMeasured when it does not run."""
    argv = [sys.executable, str(load.program), *load.options, "--copy", "--seconds", str(seconds)]
    env = {**os.environ, "CUDA_VISIBLE_DEVICES": gpu}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode:
        raise NotMeasured(f"the load does not run on {gpu}: {done.stderr.strip()}")
    found: dict[str, float] = json.loads(done.stdout)
    return found


def together(
    folder: Path, means: str, parts: Sequence[Part], seconds: float, load: Load = CUDA
) -> dict[str, dict[str, float]]:
    """Session → what its load measured, all at the same time. Raises NotMeasured when one does not run."""
    repository = _write(folder, means, parts, seconds, load)
    with Workspace.open(repository) as workspace:
        plan = workspace.plan()
        waiting = [f"{wait.session}: {reason.message}" for wait in plan.waits for reason in wait.reasons]
        if waiting:
            raise NotMeasured("not placed: " + "; ".join(waiting))
        try:
            result = workspace.apply(plan, holder="benchmarks.gpu")
            failed = [each.error for each in result.results if each.error]
            if failed:
                raise NotMeasured("not started: " + "; ".join(failed))
            return _measured(workspace, parts, seconds)
        finally:
            workspace.apply(workspace.plan(PlanOptions(destroy=True)), holder="benchmarks.gpu")


def write_repository(folder: Path, means: str, *, hami: str = "") -> Path:
    """The documents of a cluster that is this machine, without sessions. `hami`: where libvgpu.so is."""
    repository, disk = folder / "repository", folder / "disk" / "load"
    repository.mkdir(parents=True)
    disk.mkdir(parents=True)
    for load in (CUDA, TORCH):
        shutil.copy(load.program, disk)
    option = f", hami: {json.dumps(hami)}" if hami else ""
    (repository / "cluster.yaml").write_text(CLUSTER.format(root=folder, means=means, hami=option))
    return repository


def _write(folder: Path, means: str, parts: Sequence[Part], seconds: float, load: Load) -> Path:
    repository = write_repository(folder, means)
    at = str(time.time() + WAIT)
    program = f"bench/{load.program.name}"
    command = [load.python, program, *load.options, "--seconds", str(seconds), "--at", at]
    if parts == [WHOLE]:  # sharers would copy while others still multiply
        command.append("--copy")
    env = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
    for part in parts:
        text = SESSION.format(
            name=part.name,
            command=json.dumps(command),
            env=json.dumps(env),
            slot=part.slot,
            amount=part.amount,
        )
        (repository / f"{part.name}.yaml").write_text(text)
    return repository


def _measured(workspace: Workspace, parts: Sequence[Part], seconds: float) -> dict[str, dict[str, float]]:
    deadline = time.monotonic() + WAIT + seconds + 120
    while True:
        kernels = workspace.provider.observe().kernels
        if all(kernel.state in ("exited", "lost") for kernel in kernels):
            break
        if time.monotonic() > deadline:
            raise NotMeasured("the sessions do not end")
        time.sleep(1.0)
    found = {}
    for kernel in kernels:
        said = b"".join(workspace.provider.logs(kernel.id)).decode(errors="replace").strip()
        name = kernel.labels.resource.rpartition("/")[2]
        if kernel.exit_code:
            raise NotMeasured(f"{name} failed: {said}")
        found[name] = json.loads(said.splitlines()[-1])
    missing = {part.name for part in parts} - found.keys()
    if missing:
        raise NotMeasured(f"nothing was seen of {', '.join(sorted(missing))}")
    return found


def fractions(gpu: Gpu, asked: Sequence[float]) -> list[Part]:
    """Parts under MPS."""
    return [
        Part(f"part-{at}", "cuda.shares", str(share), int(gpu.memory * share), share)
        for at, share in enumerate(asked, 1)
    ]


def instances(gpu: Gpu, whole: int) -> list[Part]:
    """MIG instances that exist, one session each; `whole`: compute slices of the GPU."""
    found = []
    for at, device in enumerate(gpu.mig_devices, 1):
        compute, _, memory = device.profile.partition("g.")
        gigabytes = int(memory.partition("gb")[0])
        part = Part(f"mig-{at}", f"cuda.mig.{device.profile}", "1", gigabytes << 30, int(compute) / whole)
        found.append(part)
    return found


def compared(
    parts: Sequence[Part], got: Mapping[str, Mapping[str, float]], whole: Mapping[str, float]
) -> list[dict[str, float | str]]:
    """Asked and achieved, as parts of what one process without limits gets."""
    lines: list[dict[str, float | str]] = []
    for part in parts:
        mine = got[part.name]
        line: dict[str, float | str] = {
            "session": part.name,
            "askedCompute": part.compute,
            "gotCompute": round(mine["rate"] / whole["rate"], 4),
            "computeRatio": round(mine["rate"] / whole["rate"] / part.compute, 4),
            "multiprocessors": mine["multiprocessors"],
            "late": mine["late"],
        }
        if "memory" in mine:
            line |= {
                "askedMemory": part.memory,
                "gotMemory": mine["memory"],
                "memoryRatio": round(mine["memory"] / part.memory, 4),
            }
        lines.append(line)
    return lines
