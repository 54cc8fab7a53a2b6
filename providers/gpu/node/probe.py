"""What a node can enforce parts of its GPUs with, by looking; nothing is changed."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from typing import Any

from providers.gpu.node.daemon import CONTROL, SERVER

_QUERY = "uuid,compute_mode,mig.mode.current,compute_cap,driver_version"
OLDEST = 7.0
"""Compute capability (Volta) from which MPS limits threads and memory of each client."""


def serve(request: dict[str, Any]) -> dict[str, dict[str, str]]:
    """`missing`: means → why it cannot be used here, empty when it can. `versions`: means → what enforces it,
    which is another text after any change of it. `libraries` of the request: where HAMi-core may be."""
    gpus, why = query(f"--query-gpu={_QUERY}")
    if why or not gpus:
        return {
            "missing": dict.fromkeys(("mps", "hami", "mig"), why or "it has no NVIDIA GPU"),
            "versions": {},
        }
    missing = {
        "mps": _mps_problem(gpus), "hami": _hami_problem(request["libraries"]), "mig": _mig_problem(gpus)
    }  # fmt: skip
    driver = f"driver {gpus[0][4]}"
    versions = {
        "mps": f"{driver}, {_file(shutil.which(SERVER) or SERVER)}",
        "hami": f"{driver}, {_file(library(request) or 'libvgpu.so')}",
        "mig": driver,
    }
    return {"missing": missing, "versions": versions}


def library(request: dict[str, Any]) -> str:
    """The first of the places where HAMi-core is; empty when it is in none."""
    return next((path for path in request["libraries"] if os.path.isfile(path)), "")


def _file(path: str) -> str:
    """A file by its path, size and time: another one is told apart without being read."""
    try:
        found = os.stat(path)
    except OSError:
        return path
    at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(found.st_mtime))
    return f"{path} of {found.st_size} bytes and {at}.{found.st_mtime_ns % 10**9:09d}Z"


def query(what: str) -> tuple[list[list[str]], str]:
    """The rows that nvidia-smi prints for a query, as many cells in each as were asked for, or why there are
    none."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return [], "nvidia-smi is not installed"
    try:
        done = subprocess.run(
            [program, what, "--format=csv,noheader"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=30,
            check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return [], f"nvidia-smi: {error}"
    said = done.stdout.decode(errors="replace").strip()
    if done.returncode:
        return [], f"nvidia-smi: {said.splitlines()[0] if said else f'exit code {done.returncode}'}"
    rows = [[cell.strip() for cell in line.split(",")] for line in said.splitlines()]
    return [row for row in rows if len(row) == len(what.split(","))], ""


def _mps_problem(gpus: list[list[str]]) -> str:
    missing = [name for name in (CONTROL, SERVER) if shutil.which(name) is None]
    if missing:
        return f"{missing[0]} is not installed"
    for uuid, mode, mig, capability, _ in gpus:
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
