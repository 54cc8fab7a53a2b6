"""Whether parts of this machine's GPUs hold, by each means that it has: what `bai nodes check --enforcement`
does, without a repository."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from benchmarks.gpu import shares
from reconciler.workspace.enforcement import CheckedMeans, check_enforcement
from reconciler.workspace.workspace import Workspace


def tried(hami: str) -> dict[str, Any]:
    """By means; `hami`: where libvgpu.so is, if nowhere usual."""
    with tempfile.TemporaryDirectory(prefix="bai-gpu-") as folder:
        repository = shares.write_repository(Path(folder), "none", hami=hami)
        with Workspace.open(repository) as workspace:
            return {each.means: _line(each) for each in check_enforcement(workspace, ["here"])}


def _line(each: CheckedMeans) -> dict[str, str]:
    return {"outcome": each.outcome, "why": each.why, "enforcedBy": each.version}


def good(found: dict[str, Any]) -> bool:
    """Whether nothing that is there has failed, and something held."""
    outcomes = {each["outcome"] for each in found.values()}
    return "held" in outcomes and "failed" not in outcomes


def show(found: dict[str, Any]) -> None:
    """For a person."""
    for means, each in found.items():
        by = f" ({each['enforcedBy']})" if each["enforcedBy"] else ""
        print(f"{means}: {each['outcome']}: {each['why']}{by}")
