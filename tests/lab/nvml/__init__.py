"""Builds the stand-in for NVIDIA's library (`fake_nvml.c`) and writes the facts it answers with."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.lab.cache import LabUnavailable, command, kept

_SOURCE = Path(__file__).with_name("fake_nvml.c")


def library(*, old: bool = False) -> Path:
    """A folder with `libnvidia-ml.so.1`, for LD_LIBRARY_PATH; `old`: a driver without the newer functions.
    Skips without a compiler.
    """
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler to build the NVML stand-in: apt-get install gcc libc6-dev")
    flags = ["-DOLD_DRIVER"] if old else []
    key = hashlib.sha256(_SOURCE.read_bytes() + repr(flags).encode()).hexdigest()[:16]

    def build(draft: Path) -> None:
        draft.mkdir()
        command(
            [
                compiler,
                "-shared",
                "-fPIC",
                "-O1",
                "-w",
                *flags,
                "-o",
                str(draft / "libnvidia-ml.so.1"),
                str(_SOURCE),
            ]
        )

    try:
        return kept(f"nvml-{key}", build)
    except LabUnavailable as error:
        pytest.skip(f"the NVML stand-in cannot be built: {error}")


def lines(facts: Mapping[str, Any]) -> str:
    """Nested facts as the stand-in reads them: `{"gpu": {0: {"uuid": …}}}` → `gpu.0.uuid=…`."""
    return "".join(f"{key}={value}\n" for key, value in _flat("", facts))


def _flat(prefix: str, facts: Mapping[str, Any]) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for name, value in facts.items():
        key = f"{prefix}.{name}" if prefix else str(name)
        found += _flat(key, value) if isinstance(value, Mapping) else [(key, value)]
    return found


def of_profile(profile: Mapping[str, Any]) -> dict[str, Any]:
    """The facts of one of NVIDIA's own mock profiles (tests/data/topology/nvml-mock-profiles)."""
    common, system, fabric = profile["device_defaults"], profile["system"], profile.get("nvlink") or {}
    major, minor = system["cuda_version_major"], system["cuda_version_minor"]
    switches = [switch["bdf"] for switch in fabric.get("switches", ())]
    rows = common.get("remapped_rows", {})
    gpus = {}
    for device in profile["devices"]:
        links = {
            link: {"state": 1, "pci": switches[link % len(switches)], "type": 2}
            for link in range(fabric.get("links_per_gpu", 0) if switches else 0)
        }
        gpus[device["index"]] = {
            "uuid": device["uuid"],
            "name": common["name"],
            "pci": device["pci"]["bus_id"],
            "memory": common["memory"]["total_bytes"],
            "mig": int(common["mig"]["mode_current"] == "enabled"),
            "ecc": {1: {0: common["ecc"]["errors"]["volatile"]["double_bit"]["total"]}},
            "rows": {"failed": int(rows.get("failure_occurred", 0)), "pending": int(rows.get("pending", 0))},
            "retired": {1: common["retired_pages"]["double_bit_retirement"]["count"], "pending": 0},
            "link": links,
        }
    return {
        "driver": system["driver_version"],
        "cuda": major * 1000 + minor * 10,
        "count": len(gpus),
        "gpu": gpus,
    }
