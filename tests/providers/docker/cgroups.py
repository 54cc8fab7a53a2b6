"""What the kernel really holds a container to, read without the engine's help."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from schemas.hardware.cpuset import parse_cpus
from tests.lab.docker import Engine

TOP = Path("/sys/fs/cgroup")


def limits(engine: Engine, kernel: str) -> dict[str, Any]:
    """cpus, memory_nodes, memory, pids of the control group of its main process, version 1 or 2."""
    pid = engine.inspect(kernel)["State"]["Pid"]
    groups = dict(_group(line) for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines())
    one = "cpuset" in groups
    read = _first_version(groups) if one else _second_version(groups[""])
    return {
        "cpus": parse_cpus(read["cpus"]),
        "memory_nodes": parse_cpus(read["mems"]),
        "memory": int(read["memory"]),
        "pids": 0 if read["pids"] == "max" else int(read["pids"]),
    }


def _group(line: str) -> tuple[str, str]:
    _, controllers, path = line.split(":", 2)
    return controllers.split(",")[0], path


def _first_version(groups: dict[str, str]) -> dict[str, str]:
    def read(controller: str, name: str) -> str:
        return (TOP / controller / groups[controller].lstrip("/") / name).read_text().strip()

    return {
        "cpus": read("cpuset", "cpuset.cpus"),
        "mems": read("cpuset", "cpuset.mems"),
        "memory": read("memory", "memory.limit_in_bytes"),
        "pids": read("pids", "pids.max"),
    }


def _second_version(path: str) -> dict[str, str]:
    folder = TOP / path.lstrip("/")
    names = {"cpus": "cpuset.cpus", "mems": "cpuset.mems", "memory": "memory.max", "pids": "pids.max"}
    return {key: (folder / name).read_text().strip() for key, name in names.items()}
