"""The probe's words about GPUs against nvidia-smi's."""

from __future__ import annotations

import shutil
import subprocess

from schemas.hardware.model import Gpu

QUERY = "uuid,index,name,pci.bus_id,memory.total,mig.mode.current"


def listed() -> list[dict[str, str]]:
    """One row per GPU as nvidia-smi says; empty where there is none, or no nvidia-smi."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    done = subprocess.run(
        [program, f"--query-gpu={QUERY}", "--format=csv,noheader,nounits"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    return rows(done.stdout) if done.returncode == 0 else []


def rows(text: str) -> list[dict[str, str]]:
    """nvidia-smi's CSV."""
    names = QUERY.split(",")
    cells = ([cell.strip() for cell in line.split(",")] for line in text.splitlines())
    return [dict(zip(names, row, strict=True)) for row in cells if len(row) == len(names)]


def differences(smi: list[dict[str, str]], gpus: tuple[Gpu, ...]) -> list[str]:
    """What the probe says otherwise; empty when both agree."""
    known = {gpu.id: gpu for gpu in gpus}
    found = [
        f"the probe has {extra}, nvidia-smi has not" for extra in known.keys() - {r["uuid"] for r in smi}
    ]
    for row in smi:
        gpu = known.get(row["uuid"])
        if gpu is None:
            found.append(f"nvidia-smi has {row['uuid']}, the probe has not")
            continue
        pairs = {
            "index": (str(gpu.index), row["index"]),
            "model": (gpu.model, row["name"]),
            "PCI address": (gpu.pci or "", _short(row["pci.bus_id"])),
            "memory in MiB": (str(gpu.memory >> 20), row["memory.total"]),
            "MIG mode": (gpu.mig or "", _mig(row["mig.mode.current"])),
        }
        found += [
            f"{gpu.id}: {what} {ours!r}, nvidia-smi {theirs!r}"
            for what, (ours, theirs) in pairs.items()
            if ours != theirs
        ]
    return found


def _short(bus: str) -> str:
    """nvidia-smi writes eight digits of domain, the kernel four."""
    domain, _, rest = bus.lower().partition(":")
    return f"{domain[-4:]}:{rest}"


def _mig(mode: str) -> str:
    return {"Enabled": "enabled", "Disabled": "disabled"}.get(mode, "")
