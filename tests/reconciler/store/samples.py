"""Records and journal entries to write."""

from __future__ import annotations

from planner.model.types import Choice, DeviceGrant, KernelPlacement, NumaPart, Placement
from reconciler.values.records import JournalEntry, Recorded

CLUSTER = "here"
NAME = "Session/vision/llama"


def record(resource: str = NAME, **fields: object) -> Recorded:
    return Recorded(**{"resource": resource, "cluster": CLUSTER, "generation": 1, "digest": "d1", **fields})  # type: ignore[arg-type]


def entry(state: str, step: str = "create:k", apply: str = "a1") -> JournalEntry:
    return JournalEntry(apply, NAME, step, step.partition(":")[0], "k", state, 1.0)  # type: ignore[arg-type]


def full_record() -> Recorded:
    kernel = KernelPlacement(
        kernel="main1", node="n1", cpus=(0, 1), cpu_milli=2000, memory_nodes=(0,), memory=1 << 40,
        devices=(DeviceGrant("GPU-1", "cuda", 500),), nics=("mlx5_0",), parts=(NumaPart(0, 2000, 1 << 40),),
    )  # fmt: skip
    return record(
        document={"spec": {"command": ["ü", 1, None]}},
        phase="RUNNING",
        placement=Placement(NAME, "default", (kernel,), Choice("concentrated", "3", "n2", 1, "why")),
        kernels=("llama-main1-0badcafe-g1",),
        protected=True,
        commit="c" * 40,
        enqueued_at=1.25,
        started_at=2.5,
        exit_codes={"main1": -9},
        skips=3,
        reason="because",
    )
