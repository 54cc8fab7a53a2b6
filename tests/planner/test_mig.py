"""MIG: profiles of real GPUs, layouts against a search over all, and what a waiting session is told."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.advice.repartition import repartitions
from planner.model.types import (
    DeviceGrant,
    GroupInfo,
    KernelPlacement,
    KernelRequest,
    NodeInfo,
    Placement,
    Reason,
    Running,
    SessionRequest,
    Snapshot,
)
from planner.policies import Policies
from planner.selection.mig import instance_starts
from schemas.hardware.mig import profile_on
from schemas.hardware.model import Gpu, Hardware, MigDevice, NumaNode
from tests.planner.support import BUILT_IN, GIB, node, place

GROUP = GroupInfo("main")


def gpu(*instances: MigDevice, model: str = "NVIDIA A100-SXM4-40GB", memory: int = 40, index: int = 3) -> Gpu:
    return Gpu(
        id=f"GPU-{index}",
        index=index,
        model=model,
        numa_node=0,
        memory=memory * GIB,
        mig="enabled",
        mig_devices=instances,
    )


def instance(profile: str, start: int | None, size: int | None = None) -> MigDevice:
    return MigDevice(id=f"MIG-{profile}-{start}", profile=profile, start=start, size=size)


@pytest.mark.parametrize(
    ("model", "memory", "counts"),
    [
        (
            "A100-SXM4-40GB",
            40,
            {"1g.5gb": 7, "1g.10gb": 4, "2g.10gb": 3, "3g.20gb": 2, "4g.20gb": 1, "7g.40gb": 1},
        ),
        (
            "H100 80GB HBM3",
            80,
            {"1g.10gb": 7, "1g.20gb": 4, "2g.20gb": 3, "3g.40gb": 2, "4g.40gb": 1, "7g.80gb": 1},
        ),
        ("H200", 140, {"1g.18gb": 7, "1g.35gb": 4, "2g.35gb": 3, "3g.71gb": 2, "4g.71gb": 1, "7g.141gb": 1}),
        ("B200", 179, {"1g.23gb": 7, "1g.45gb": 4, "2g.45gb": 3, "3g.90gb": 2, "4g.90gb": 1, "7g.180gb": 1}),
        ("A30", 24, {"1g.6gb": 4, "2g.12gb": 2, "4g.24gb": 1}),
        ("RTX PRO 6000 Blackwell", 96, {"1g.24gb": 4, "2g.48gb": 2, "4g.96gb": 1}),
    ],
)
def test_as_many_instances_as_the_vendor_names(model: str, memory: int, counts: dict[str, int]) -> None:
    one = gpu(model=model, memory=memory)
    assert {name: len(instance_starts(one, name, (), 99)) for name in counts} == counts
    assert profile_on(one, "5g.30gb") is None and profile_on(one, "1g.3gb") is None
    assert profile_on(one, "nonsense") is None


def test_one_instance_with_media_engines() -> None:
    assert len(instance_starts(gpu(), "1g.5gb+me", (), 7)) == 1
    assert not instance_starts(gpu(), "1g.5gb+me", (instance("1g.5gb+me", 0),), 1)


def test_an_instance_of_unknown_place_blocks_its_gpu() -> None:
    assert not instance_starts(gpu(), "1g.5gb", (instance("1g.5gb", None),), 1)


PROFILES = ["1g.5gb", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"]
SIZES = {"1g.5gb": 1, "1g.10gb": 2, "2g.10gb": 2, "3g.20gb": 4, "4g.20gb": 4, "7g.40gb": 8}


@given(
    st.lists(st.tuples(st.sampled_from(PROFILES), st.integers(0, 6)), max_size=4), st.sampled_from(PROFILES)
)
def test_no_layout_holds_more(held: list[tuple[str, int]], name: str) -> None:
    one, taken, stays = gpu(), set[int](), []
    for profile, start in held:
        known = profile_on(one, profile)
        run = set(range(start, start + SIZES[profile]))
        if known is not None and start in known.starts and not run & taken:
            taken |= run
            stays.append(instance(profile, start))
    found = instance_starts(one, name, stays, 7)
    starts = profile_on(one, name).starts  # type: ignore[union-attr]
    runs = {at: set(range(at, at + SIZES[name])) for at in starts}
    most = 0
    for count in range(1, len(starts) + 1):
        for chosen in itertools.combinations(starts, count):
            union = set().union(*(runs[at] for at in chosen))
            if len(union) == count * SIZES[name] and not union & taken:
                most = count
    assert len(found) == most
    assert not set().union(*(runs[at] for at in found)) & taken


def told(gpus: tuple[Gpu, ...], slots: dict[str, int], held: tuple[str, ...] = ()) -> list[Reason]:
    """What a session asking for `slots` is told where instances `held` are in use."""
    numa = (NumaNode(id=0, cpus=tuple(range(16)), memory=64 * GIB),)
    nodes: tuple[NodeInfo, ...] = (node("gpu-1", Hardware(numa_nodes=numa, gpus=gpus)),)
    running = []
    for at, name in enumerate(held):
        request = SessionRequest(f"r{at}", "main", (KernelRequest("main1", "main", 1, {}),))
        kernel = KernelPlacement("main1", "gpu-1", (), 0, (0,), 0, (DeviceGrant(name, "cuda.mig.x"),))
        running.append(Running(request, Placement(f"r{at}", "main", (kernel,))))
    asked = SessionRequest("s", "main", (KernelRequest("main1", "main", 1, slots),))
    outcome = place(Snapshot(nodes, (GroupInfo("main"),), running=tuple(running), pending=(asked,)))
    return [reason for wait in outcome.waits for reason in wait.reasons]


def test_an_empty_gpu_with_mig_is_offered_with_its_layout() -> None:
    reasons = told((gpu(),), {"cuda.mig.3g.20gb": 2})
    assert [reason.code for reason in reasons] == ["impossible", "mig"]
    assert reasons[1].message == (
        "0 instances of 3g.20gb are there, at most 0 free on one node; gpu-1 would have 2 after "
        "`nvidia-smi mig -i 3 -cgi 3g.20gb:0,3g.20gb:4 -C`"
    )


def test_what_is_there_counts_and_what_is_in_use_stays() -> None:
    one = gpu(instance("3g.20gb", 0), instance("1g.5gb", 4))
    assert not told((one,), {"cuda.mig.3g.20gb": 1})
    reasons = told((one,), {"cuda.mig.3g.20gb": 2})
    assert reasons[-1].message.endswith(
        "gpu-1 would have 2 after giving up the idle MIG-1g.5gb-4 and then "
        "`nvidia-smi mig -i 3 -cgi 3g.20gb:4 -C`"
    )
    used = told((one,), {"cuda.mig.3g.20gb": 2}, held=("MIG-1g.5gb-4",))
    assert used[-1].message.endswith(
        "what is in use on the 1 GPU with this profile leaves no layout with 2 on one node"
    )
    other = told((one, gpu(index=4)), {"cuda.mig.3g.20gb": 2}, held=("MIG-1g.5gb-4",))
    assert other[-1].message.endswith("after `nvidia-smi mig -i 4 -cgi 3g.20gb:4 -C`")


def test_no_more_is_given_up_than_it_takes() -> None:
    """Each GPU has room for one; with what is idle on it gone, for two."""
    gpus = tuple(gpu(instance("1g.5gb", 4).model_copy(update={"id": f"MIG-{at}"}), index=at) for at in (3, 4))
    assert told(gpus, {"cuda.mig.3g.20gb": 2})[-1].message.endswith(
        "after `nvidia-smi mig -i 3 -cgi 3g.20gb:0 -C`, `nvidia-smi mig -i 4 -cgi 3g.20gb:0 -C`"
    )
    assert told(gpus, {"cuda.mig.3g.20gb": 3})[-1].message.endswith(
        "would have 3 after giving up the idle MIG-3 and then "
        "`nvidia-smi mig -i 3 -cgi 3g.20gb:0,3g.20gb:4 -C`, `nvidia-smi mig -i 4 -cgi 3g.20gb:0 -C`"
    )
    assert told(gpus, {"cuda.mig.3g.20gb": 4})[-1].message.count("giving up") == 2
    assert told(gpus, {"cuda.mig.3g.20gb": 5})[-1].message.endswith("leaves no layout with 5 on one node")


def test_without_mig_or_without_the_profile() -> None:
    off = gpu().model_copy(update={"mig": "disabled"})
    assert told((off,), {"cuda.mig.1g.5gb": 1})[-1].message.endswith("no GPU there has MIG switched on")
    assert told((gpu(),), {"cuda.mig.1g.18gb": 1})[-1].message.endswith(
        "none of the 1 GPU with MIG has the profile 1g.18gb"
    )


def test_instances_that_exist_are_packed_onto_the_fullest_gpu() -> None:
    first = gpu(*(instance("1g.5gb", at) for at in range(4)), index=0)
    second = gpu(
        *(instance("1g.5gb", at).model_copy(update={"id": f"MIG-b{at}"}) for at in range(2)), index=1
    )
    numa = (NumaNode(id=0, cpus=tuple(range(16)), memory=64 * GIB),)
    nodes = (node("gpu-1", Hardware(numa_nodes=numa, gpus=(first, second))),)
    asked = SessionRequest("s", "main", (KernelRequest("main1", "main", 1, {"cuda.mig.1g.5gb": 2}),))
    outcome = place(Snapshot(nodes, (GroupInfo("main"),), pending=(asked,)))
    assert {one.id for one in outcome.placements[0].kernels[0].devices} == {"MIG-b0", "MIG-b1"}


def waiting(*asked: dict[str, int], gpus: tuple[Gpu, ...], held: tuple[str, ...] = ()) -> Snapshot:
    """One node with these GPUs, instances `held` in use, and a session for each of `asked`."""
    numa = (NumaNode(id=0, cpus=tuple(range(16)), memory=64 * GIB),)
    kernels = [
        KernelPlacement("main1", "gpu-1", (), 0, (0,), 0, (DeviceGrant(name, "cuda.mig.x"),)) for name in held
    ]
    running = tuple(
        Running(
            SessionRequest(f"r{at}", "main", (KernelRequest("main1", "main", 1, {}),)),
            Placement(f"r{at}", "main", (kernel,)),
        )
        for at, kernel in enumerate(kernels)
    )
    pending = tuple(
        SessionRequest(f"s{at}", "main", (KernelRequest("main1", "main", 1, slots),), enqueued=at)
        for at, slots in enumerate(asked)
    )
    nodes: tuple[NodeInfo, ...] = (node("gpu-1", Hardware(numa_nodes=numa, gpus=gpus)),)
    return Snapshot(nodes, (GroupInfo("main"),), running=running, pending=pending)


def test_layouts_for_the_queue_build_on_each_other() -> None:
    asked = ({"cuda.mig.3g.20gb": 1}, {"cuda.mig.2g.10gb": 1}, {"cuda.mig.4g.20gb": 1})
    snapshot = waiting(*asked, gpus=(gpu(), gpu(index=4)))
    found = repartitions(snapshot, GROUP, place)
    assert [one.serves for one in found] == [("s0",), ("s1",), ("s2",)]
    assert [(one.gpu, one.profile, one.starts) for one in found] == [
        (3, "3g.20gb", (4,)),
        (3, "2g.10gb", (2,)),
        (4, "4g.20gb", (0,)),
    ]
    assert found[0].command == "nvidia-smi mig -i 3 -cgi 3g.20gb:4 -C"


def test_groups_with_a_plugins_policies_get_layouts_too() -> None:
    group = GroupInfo("main", queue="stranger", selection="stranger")
    snapshot = replace(waiting({"cuda.mig.3g.20gb": 1}, gpus=(gpu(),)), groups=(group,))
    policies = Policies({"stranger": BUILT_IN.queue["fifo"]}, {"stranger": BUILT_IN.selection["dispersed"]})
    found = repartitions(snapshot, group, lambda changed: place(changed, policies))
    assert [(one.profile, one.serves) for one in found] == [("3g.20gb", ("s0",))]


def test_a_layout_takes_nothing_from_others() -> None:
    one = gpu(instance("7g.40gb", 0))
    assert not repartitions(
        waiting({"cuda.mig.1g.5gb": 1}, gpus=(one,), held=("MIG-7g.40gb-0",)), GROUP, place
    )
    both = waiting({"cuda.mig.7g.40gb": 1}, {"cuda.mig.1g.5gb": 1}, gpus=(one,))
    assert not repartitions(both, GROUP, place), (
        "the first session gets the idle instance that would be given up"
    )
    idle = repartitions(waiting({"cuda.mig.1g.5gb": 1}, gpus=(one,)), GROUP, place)
    assert [(each.drops, each.profile) for each in idle] == [(("MIG-7g.40gb-0",), "1g.5gb")]


def test_without_waiting_for_instances_no_layout_is_proposed() -> None:
    assert not repartitions(waiting({"cpu": 99_000}, gpus=(gpu(),)), GROUP, place)
