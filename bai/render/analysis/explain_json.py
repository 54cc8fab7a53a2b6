"""An explanation for a program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bai.render.analysis.explain import Explanation, numa_nodes
from bai.render.humanize import iso_time
from planner.model.huge_pages import bytes_by_slot

if TYPE_CHECKING:
    from planner.advice.node_shortfalls import NeedFit
    from planner.model.types import KernelPlacement, NodeInfo, Placement, Wait


def explanation_json(found: Explanation) -> dict[str, object]:
    """The fields of `bai explain --format json`."""
    return {
        "id": found.id,
        "group": found.group,
        "selection": found.selection,
        "phase": found.phase,
        "reason": found.reason,
        "plan": found.plan,
        "refused": list(found.refused),
        "placement": _placement_json(found.now, found),
        "planned": _placement_json(found.then, found),
        "wait": _wait_json(found.wait, len(found.queue)),
        "needs": [_need_json(need) for need in found.needs],
    }


def _placement_json(placement: Placement | None, found: Explanation) -> dict[str, object] | None:
    if placement is None:
        return None
    choice = placement.choice
    return {
        "kernels": [_kernel_json(kernel, found.nodes.get(kernel.node)) for kernel in placement.kernels],
        "choice": None
        if choice is None
        else {
            "strategy": choice.strategy,
            "score": choice.score,
            "runnerUp": choice.runner_up,
            "numaNodes": choice.numa_nodes,
            "detail": choice.notes,
        },
    }


def _kernel_json(kernel: KernelPlacement, node: NodeInfo | None) -> dict[str, object]:
    pci: dict[str, str | None] = {}
    if node is not None:
        pci = {gpu.id: gpu.pci for gpu in node.hardware.gpus}
        pci |= {nic.id: nic.pci for nic in node.hardware.nics}
    return {
        "name": kernel.kernel,
        "node": kernel.node,
        "numaNodes": numa_nodes(kernel, node),
        "cpus": list(kernel.cpus),
        "cpuMilli": kernel.cpu_milli,
        "memory": kernel.memory,
        "memoryNodes": list(kernel.memory_nodes),
        **({"hugepages": bytes_by_slot(kernel.hugepages)} if kernel.hugepages else {}),
        "devices": [
            {"id": one.id, "slot": one.slot, "milli": one.milli, "pci": pci.get(one.id)}
            for one in kernel.devices
        ],
        "nics": [{"id": nic, "pci": pci.get(nic)} for nic in kernel.nics],
    }


def _wait_json(wait: Wait | None, length: int) -> dict[str, object] | None:
    if wait is None:
        return None
    return {
        "position": wait.position,
        "queued": length,
        "reasons": [{"code": reason.code, "message": reason.message} for reason in wait.reasons],
        "freedBy": wait.freed_by,
        "latest": iso_time(wait.latest),
        "cutShort": wait.cut_short,
        "passedOver": wait.passed_over,
    }


def _need_json(need: NeedFit) -> dict[str, object]:
    return {
        "words": need.words,
        "count": need.count,
        "nodes": [
            {
                "node": view.node,
                "verdict": view.verdict,
                "note": view.note,
                "holders": list(view.holders),
                "lacks": [
                    {"code": one.code, "message": one.message, "needed": one.needed, "has": one.has}
                    for one in view.lacks
                ],
            }
            for view in need.nodes
        ],
    }
