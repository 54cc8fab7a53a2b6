"""What must hold on machines that are not even: memory-only and lopsided NUMA nodes, GPUs of unknown place,
many devices, instances beside whole GPUs, odd steps of parts, storage and links that bind."""

from __future__ import annotations

import dataclasses

from hypothesis import given, settings
from hypothesis import strategies as st

from planner.model.types import Fractional, GroupInfo, Outcome, Running, SessionRequest, Snapshot
from schemas.hardware.model import Gpu, Hardware, MigDevice, NumaNode
from tests.planner.audit import audit
from tests.planner.support import GIB, machine, node, place, session
from tests.planner.test_mapping_optimum import asymmetric


def _sliced() -> Hardware:
    """Whole GPUs and instances on one machine, whose first NUMA node is the smaller one."""
    instances = tuple(MigDevice(id=f"MIG-{at}", profile="1g.10gb", start=at, size=1) for at in range(3))
    more = (MigDevice(id="MIG-9", profile="3g.40gb", start=4, size=4),)
    return Hardware(
        numa_nodes=(
            NumaNode(id=0, cpus=(0, 8), memory=8 * GIB),
            NumaNode(id=3, cpus=(1, 2, 3, 9, 10, 11), memory=100 * GIB),
        ),
        siblings=((0, 8), (1, 9), (2, 10), (3, 11)),
        offline_cpus=(11,),
        gpus=(
            Gpu(id="g0", index=0, numa_node=0, mig="enabled", mig_devices=instances + more),
            Gpu(id="g1", index=1, numa_node=3),
            Gpu(id="g2", index=2, numa_node=3, healthy=False),
            Gpu(id="g3", index=3),
        ),
    )


MACHINES = (
    asymmetric(),
    _sliced(),
    machine(numa=2, cores=5, gpus=18, threads=2),
    machine(numa=3, cores=3, gpus=7, nvlink=False),
    machine(numa=2, cores=4, gpus=4, memory=16 * GIB),
)


@st.composite
def requests(draw: st.DrawFn, prefix: str) -> tuple[SessionRequest, ...]:
    found = []
    for at in range(draw(st.integers(0, 8))):
        kind = draw(st.sampled_from(["cpu", "gpu", "gpu", "share", "mig", "both"]))
        one = session(
            f"{prefix}{at}",
            cpu=draw(st.integers(0, 4)),
            memory=draw(st.sampled_from([0, 1, GIB, 9 * GIB, 40 * GIB])),
            gpus=draw(st.integers(1, 5)) if kind in ("gpu", "both") else 0,
            shares=draw(st.sampled_from([1, 250, 333, 500, 1001, 1500])) if kind in ("share", "both") else 0,
            kernels=draw(st.integers(1, 3)),
            multi_node=draw(st.booleans()),
            exclusive_cpus=draw(st.booleans()),
            require_nvlink=draw(st.booleans()),
            same_leaf=draw(st.booleans()),
            enqueued=float(draw(st.integers(0, 3))),
            numa=draw(st.sampled_from([None, "interleaving"])),
        )
        if kind == "mig":
            slots = {"cuda.mig.1g.10gb": draw(st.integers(1, 3)), "cuda.mig.3g.40gb": draw(st.integers(0, 1))}
            kernels = tuple(
                dataclasses.replace(each, slots={**each.slots, **slots} if at == 0 else each.slots)
                for at, each in enumerate(one.kernels)
            )
            one = dataclasses.replace(one, kernels=kernels)
        found.append(one)
    return tuple(found)


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    group = GroupInfo(
        "main",
        queue=draw(st.sampled_from(["fifo", "drf", "fair-share"])),
        selection=draw(st.sampled_from(["concentrated", "dispersed", "roundrobin", "least-fragmentation"])),
        fractional=Fractional(
            quantum=draw(st.sampled_from([1, 8, 125, 500])), spread=draw(st.sampled_from(["fill", "even"]))
        ),
        gpudirect_storage=draw(st.booleans()),
    )
    nodes = tuple(
        node(
            f"n{at}",
            draw(st.sampled_from(MACHINES)),
            labels=draw(st.sampled_from([{}, {"bai/leaf": "l0"}, {"bai/leaf": "l1"}])),
            reserved_cpus=draw(st.sampled_from([(), (1,)])),
            reserved_memory=draw(st.sampled_from([0, GIB + 1])),
        )
        for at in range(draw(st.integers(1, 3)))
    )
    first = Snapshot(nodes, (group,), pending=draw(requests("old")))
    started = tuple(one for one in running(first, place(first)) if draw(st.booleans()))
    return dataclasses.replace(first, running=started, pending=draw(requests("new")))


def running(snapshot: Snapshot, outcome: Outcome) -> tuple[Running, ...]:
    """What runs once the outcome is carried out."""
    by_id = {one.id: one for one in snapshot.pending}
    started = (Running(by_id[one.session], one, float(at)) for at, one in enumerate(outcome.placements))
    return (*snapshot.running, *started)


@settings(max_examples=25, deadline=None)
@given(snapshots())
def test_nothing_is_given_twice_and_nothing_that_fits_is_left_out(snapshot: Snapshot) -> None:
    outcome = place(snapshot)
    audit(snapshot, outcome)
    assert not outcome.warnings or all("is given" in text for text in outcome.warnings)
    placed = {one.session for one in outcome.placements}
    pending = tuple(one for one in snapshot.pending if one.id not in placed)
    again = place(dataclasses.replace(snapshot, running=running(snapshot, outcome), pending=pending))
    assert not again.placements


@settings(max_examples=15, deadline=None)
@given(snapshots())
def test_who_has_the_cluster_for_itself_is_placed_or_never_will_be(snapshot: Snapshot) -> None:
    for one in snapshot.pending:
        outcome = place(dataclasses.replace(snapshot, running=(), pending=(one,)))
        codes = {reason.code for wait in outcome.waits for reason in wait.reasons}
        assert "no-capacity" not in codes, one


@settings(max_examples=10, deadline=None)
@given(snapshots(), st.randoms(use_true_random=False))
def test_the_order_in_which_things_are_found_does_not_matter(snapshot: Snapshot, random) -> None:
    def shuffled(items):
        return tuple(random.sample(list(items), len(items)))

    pending = tuple(
        dataclasses.replace(
            one,
            kernels=tuple(
                dataclasses.replace(each, slots=dict(shuffled(each.slots.items()))) for each in one.kernels
            ),
        )
        for one in shuffled(snapshot.pending)
    )
    again = dataclasses.replace(snapshot, running=shuffled(snapshot.running), pending=pending)
    assert repr(place(again)) == repr(place(snapshot))
