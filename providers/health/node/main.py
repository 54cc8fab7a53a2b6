"""All facts of one machine, or of the copy of one below `root`; `do: settle` marks its log instead."""

from __future__ import annotations

from typing import Any

from providers.health.node import driver, kernel_log, nvml, smi, system
from providers.health.node.files import Hangs, Tree, apart

_SECONDS = 30.0


def serve(request: dict[str, Any]) -> dict[str, Any]:
    """JSON in the shape of `providers.health.facts.Facts`."""
    tree = Tree(request.get("root", ""))
    if request.get("do") == "settle":
        return _settled(tree)
    return {
        "software": driver.software(tree),
        "pci": system.pci(tree),
        "gpus": _gpus(),
        "log": kernel_log.log(tree),
        "units": driver.units(tree),
        "cdi": driver.cdi(tree),
        "unlinked": driver.unlinked(tree),
        "disks": system.disks(tree),
        "mounts": system.mounts(tree),
        "synchronised": system.synchronised(tree),
        "memory": system.memory(tree),
        "rdma": system.rdma(tree),
        "now": driver.clock(tree),
    }


def _gpus() -> dict[str, Any]:
    """What the driver says: by its library, else by nvidia-smi."""
    for source, state in (("nvml", _library), ("nvidia-smi", smi.state)):
        try:
            found = state()
        except Hangs as hangs:
            return {"source": source, "problem": str(hangs), "hangs": True}
        if found is not None:
            return {"source": source, **found}
    return {}


def _library() -> dict[str, Any] | None:
    found: dict[str, Any] | None = apart(nvml.state, _SECONDS)
    return found


def _settled(tree: Tree) -> dict[str, Any]:
    try:
        kernel_log.settle(tree)
    except OSError as error:
        return {"problem": str(error.strerror or error).lower()}
    return {"problem": ""}
