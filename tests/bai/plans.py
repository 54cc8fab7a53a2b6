"""Plans built by hand, for the renderers."""

from __future__ import annotations

from planner.model.types import (
    Choice,
    DeviceGrant,
    GroupUse,
    KernelPlacement,
    NodeInfo,
    Placement,
    QuotaUse,
    Reason,
    Wait,
)
from reconciler.values.changes.cause import NEW, REMOVED, SPEC_CHANGED, Cause
from reconciler.values.changes.change import Change
from reconciler.values.plan import Action, Drift, Plan
from reconciler.values.sides import NodeSide, SessionSide, Side
from schemas.hardware.model import Gpu, Hardware, NumaNode

GIB = 1 << 30


def machine(name: str = "gpu-001", cores: int = 8, numa: int = 2, gpus: int = 4) -> NodeInfo:
    """A node of `cores` two-threaded cores per NUMA node."""
    total = cores * numa
    hardware = Hardware(
        numa_nodes=tuple(
            NumaNode(
                id=at,
                cpus=tuple(
                    [
                        *range(at * cores, (at + 1) * cores),
                        *range(total + at * cores, total + (at + 1) * cores),
                    ]
                ),
                memory=256 * GIB,
            )
            for at in range(numa)
        ),
        siblings=tuple((core, core + total) for core in range(total)),
        gpus=tuple(
            Gpu(
                id=f"GPU-{at}", index=at, model="A100-SXM4-80GB", numa_node=at * numa // gpus, healthy=at != 3
            )
            for at in range(gpus)
        ),
    )
    return NodeInfo(name=name, hardware=hardware, group="a100", reserved_cpus=(0, total))


def placed(
    session: str, cpus: tuple[int, ...], gpus: tuple[int, ...], numa: int = 0, node: str = "gpu-001"
) -> Placement:
    kernel = KernelPlacement(
        kernel="main1",
        node=node,
        cpus=cpus,
        cpu_milli=0 if cpus else 500,
        memory_nodes=(numa,),
        memory=64 * GIB,
        devices=tuple(DeviceGrant(id=f"GPU-{at}", slot="cuda") for at in gpus),
    )
    choice = Choice(strategy="concentrated", score="6 of 8 slots used", runner_up="gpu-002 (2 of 8)")
    return Placement(session=session, group="a100", kernels=(kernel,), choice=choice)


def side(generation: int = 1, placement: Placement | None = None, phase: str = "") -> SessionSide:
    kernels = tuple(f"{k.kernel}-g{generation}" for k in placement.kernels) if placement else ()
    return SessionSide(generation, f"d{generation}", {}, phase, placement, kernels)


def action(
    identity: str,
    before: Side | None,
    after: Side | None,
    *changes: Change,
    cause: Cause | None = None,
) -> Action:
    return Action(identity, "lab", before, after, changes, cause)


def plan(*actions: Action, **fields: object) -> Plan:
    values: dict[str, object] = {
        "repo": "r1",
        "cluster": "lab",
        "commit": "3f2a9c01d2e4a5b6",
        "tree": "0011223344556677",
        "basis": "b1",
        "complete": True,
        "actions": actions,
    }
    return Plan(**{**values, **fields})  # type: ignore[arg-type]


def full_plan() -> Plan:
    """One of everything."""
    sft = placed("Session/vision/llama-sft", (1, 2, 3, 4, 17, 18, 19, 20), (0, 1))
    eval_ = placed("Session/vision/eval", (8, 9, 24, 25), (2,), numa=1)
    notebook = placed("Session/vision/notebook", (), ())
    return plan(
        action("Cluster/lab", None, Side(1, "d1"), cause=NEW),
        action("Project/nlp", None, Side(1, "d1"), cause=NEW),
        action("Project/vision", None, Side(1, "d1"), cause=NEW),
        action("Node/gpu-001", NodeSide(1, "d1"), NodeSide(1, "d1")),
        action("Session/vision/llama-sft", None, side(1, sft, "RUNNING"), cause=NEW),
        action("Session/vision/eval", side(1, eval_, "RUNNING"), side(1, eval_, "RUNNING")),
        Action(
            "Session/vision/notebook",
            "lab",
            side(1, notebook, "RUNNING"),
            side(2, notebook, "RUNNING"),
            (Change("spec.image", '"a:1"', '"a:2"', forces=True), Change("spec.env.LR", None, '"3e-4"')),
            cause=SPEC_CHANGED,
            warnings=("memory is not enforced here: no cgroup",),
        ),
        action(
            "Session/nlp/small",
            side(3, None, "RUNNING"),
            side(3, None, "RUNNING"),
            Change("metadata.labels.team", '"a"', '"b"'),
            cause=SPEC_CHANGED,
        ),
        action(
            "Session/nlp/old",
            side(1, placed("Session/nlp/old", (10,), ())),
            None,
            cause=REMOVED,
        ),
        action("Session/nlp/big", None, side(1, None, "PENDING"), cause=NEW),
        waits=(
            Wait(
                "Session/nlp/big",
                "a100",
                1,
                (Reason("no-capacity", "needs 8 cuda.device on one node; gpu-001 has 1 free"),),
                freed_by="Session/vision/llama-sft",
                latest=1_800_000_000.0,
            ),
        ),
        drifts=(Drift("Session/vision/notebook", "the container ended with exit code 137", "main1"),),
        quotas=(
            QuotaUse(
                "vision-gpus",
                "project vision",
                {"cuda.device": 4, "mem": 512 * GIB},
                {"cuda.device": 1},
                {"cuda.device": 3},
            ),
        ),
        groups=(
            GroupUse(
                "a100",
                {"cpu": 16_000, "cuda.device": 4},
                {"cpu": 2_000, "cuda.device": 1},
                {"cpu": 6_000, "cuda.device": 3},
                {"1 GPU": 3, "2 GPUs": 1},
                {"1 GPU": 1, "2 GPUs": 0},
            ),
        ),
        warnings=("2 kernels carry no readable labels and are left alone",),
    )
