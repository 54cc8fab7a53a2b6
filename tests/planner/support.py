"""Machines, nodes and sessions for the planner's tests, with short spellings."""

from __future__ import annotations

from typing import Any

from planner.model.types import KernelRequest, NodeInfo, Outcome, SessionRequest, Snapshot
from planner.place import place as place_by
from planner.policies import Policies, built_in_policies
from schemas.hardware.model import Gpu, Hardware, Link, NumaNode

GIB = 1 << 30
BUILT_IN = built_in_policies()


def place(snapshot: Snapshot, policies: Policies = BUILT_IN) -> Outcome:
    return place_by(snapshot, policies)


def machine(
    numa: int = 2,
    cores: int = 8,
    gpus: int = 8,
    memory: int = 512 * GIB,
    threads: int = 1,
    nvlink: bool = True,
    hugepages: dict[Any, int] | None = None,
    **more: Any,
) -> Hardware:
    """An even machine: `cores` per NUMA node, `gpus`, `memory` and of it `hugepages` in total over all of
    them."""
    total = numa * cores
    nodes = tuple(
        NumaNode(
            id=at,
            cpus=tuple(
                thread * total + core
                for thread in range(threads)
                for core in range(at * cores, (at + 1) * cores)
            ),
            memory=memory // numa,
            hugepages={size: amount // numa for size, amount in (hugepages or {}).items()},
            distances={other: 10 if other == at else 12 + 9 * (abs(at - other) > 1) for other in range(numa)},
        )
        for at in range(numa)
    )
    siblings = tuple(tuple(thread * total + core for thread in range(threads)) for core in range(total))
    devices = tuple(
        Gpu(id=f"GPU-{at}", index=at, model="H100", numa_node=at * numa // gpus, memory=80 * GIB)
        for at in range(gpus)
    )
    links = tuple(
        Link(a=f"GPU-{a}", b=f"GPU-{b}", kind="NV", count=18) for b in range(gpus) for a in range(b)
    )
    return Hardware(
        numa_nodes=nodes,
        siblings=siblings if threads > 1 else (),
        gpus=devices,
        links=links if nvlink else (),
        **more,
    )


def node(name: str, hardware: Hardware, **more: Any) -> NodeInfo:
    return NodeInfo(name, hardware, more.pop("group", "main"), **more)


def session(
    name: str, cpu: int = 1, memory: int = GIB, gpus: int = 0, shares: int = 0, kernels: int = 1, **more: Any
) -> SessionRequest:
    """`cpu` cores, `memory` bytes, `gpus` whole devices, `shares` milli and `hugepages` (bytes by slot) per
    kernel."""
    slots = {"cpu": 1000 * cpu, "mem": memory, "cuda.device": gpus, "cuda.shares": shares}
    given = {slot: amount for slot, amount in slots.items() if amount or slot == "mem"}
    given |= more.pop("hugepages", {})
    requests = tuple(KernelRequest(f"main{at + 1}", "main", at + 1, given) for at in range(kernels))
    return SessionRequest(id=name, group=more.pop("group", "main"), kernels=requests, **more)
