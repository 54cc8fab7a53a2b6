"""All facts of one machine, or of the copy of one below `root`; `do: settle` marks its log instead."""

from __future__ import annotations

from typing import Any

from providers.health.node import driver, kernel_log, nvml, smi, system
from providers.health.node.files import NoAnswer, Tree, run_apart

_SECONDS = 30.0


def serve(request: dict[str, Any]) -> dict[str, Any]:
    """JSON in the shape of `providers.health.facts.MachineFacts`."""
    tree = Tree(request.get("root", ""))
    if request.get("do") == "settle":
        return _settle_log(tree)
    return {
        "software": driver.software(tree),
        "pci": system.pci(tree),
        "gpus": _gpus(),
        "log": kernel_log.read_log(tree),
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
        except NoAnswer as hangs:
            return {"source": source, "problem": str(hangs), "hangs": True}
        if found is not None:
            return {"source": source, **found}
    return {}


def _library() -> dict[str, Any] | None:
    found: dict[str, Any] | None = run_apart(nvml.state, _SECONDS)
    return found


def _settle_log(tree: Tree) -> dict[str, Any]:
    try:
        kernel_log.write_mark(tree)
    except OSError as error:
        return {"problem": str(error.strerror or error).lower()}
    return {"problem": ""}
