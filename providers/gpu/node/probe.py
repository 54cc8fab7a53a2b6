"""What a node can enforce parts of its GPUs with, by looking; nothing is changed."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import Any

from providers.gpu.node.daemon import CONTROL, SERVER

_QUERY = "uuid,compute_mode,mig.mode.current,compute_cap"
OLDEST = 7.0
"""Compute capability (Volta) from which MPS limits threads and memory of each client."""


def serve(request: dict[str, Any]) -> dict[str, str]:
    """Means → why it cannot be used here; empty when it can. `libraries`: where HAMi-core may be."""
    gpus, why = _gpus()
    if why:
        return dict.fromkeys(("mps", "hami", "mig"), why)
    return {"mps": _mps_problem(gpus), "hami": _hami_problem(request["libraries"]), "mig": _mig_problem(gpus)}


def library(request: dict[str, Any]) -> str:
    """The first of the places where HAMi-core is; empty when it is in none."""
    return next((path for path in request["libraries"] if os.path.isfile(path)), "")


def _gpus() -> tuple[list[list[str]], str]:
    """Rows of UUID, compute mode, MIG mode and compute capability, or why there are none."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return [], "nvidia-smi is not installed"
    try:
        done = subprocess.run(
            [program, f"--query-gpu={_QUERY}", "--format=csv,noheader"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=30,
            check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return [], f"nvidia-smi: {error}"
    said = done.stdout.decode(errors="replace").strip()
    if done.returncode:
        return [], f"nvidia-smi: {said.splitlines()[0] if said else f'exit code {done.returncode}'}"
    rows = [[cell.strip() for cell in line.split(",")] for line in said.splitlines()]
    rows = [row for row in rows if len(row) == len(_QUERY.split(","))]
    return rows, "" if rows else "it has no NVIDIA GPU"


def _mps_problem(gpus: list[list[str]]) -> str:
    missing = [name for name in (CONTROL, SERVER) if shutil.which(name) is None]
    if missing:
        return f"{missing[0]} is not installed"
    for uuid, mode, mig, capability in gpus:
        if mode == "Prohibited":
            return f"the compute mode of {uuid} is Prohibited"
        if mig == "Enabled":
            return f"{uuid} is in MIG mode"
        if _number(capability) < OLDEST:
            return f"{uuid} has compute capability {capability}: MPS limits clients from {OLDEST} on"
    return ""


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return OLDEST  # A driver too old to tell; the daemon will.


def _hami_problem(libraries: list[str]) -> str:
    return "" if library({"libraries": libraries}) else f"libvgpu.so is not at {' or '.join(libraries)}"


def _mig_problem(gpus: list[list[str]]) -> str:
    return "" if any(row[2] == "Enabled" for row in gpus) else "no GPU is in MIG mode"
