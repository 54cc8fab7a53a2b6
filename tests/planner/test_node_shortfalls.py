"""What each node lacks for a session that waits."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from planner.advice.node_shortfalls import NodeFit, rank_nodes
from planner.model.types import (
    Fractional,
    GroupInfo,
    NodeInfo,
    NodeReservation,
    Running,
    SessionRequest,
    Snapshot,
)
from tests.planner.support import GIB, machine, node, place, session

GROUP = GroupInfo("main")
H100 = machine()
SMALL = machine(numa=1, cores=4, gpus=2, memory=64 * GIB)


def settled(nodes: tuple[NodeInfo, ...], *running: SessionRequest, group: GroupInfo = GROUP) -> Snapshot:
    """The nodes with these sessions on them."""
    outcome = place(Snapshot(nodes, (group,), pending=running))
    requests = {one.id: one for one in running}
    assert len(outcome.placements) == len(running)
    held = tuple(Running(requests[one.session], one) for one in outcome.placements)
    return Snapshot(nodes, (group,), running=held)


def views(snapshot: Snapshot, wanted: SessionRequest, group: GroupInfo = GROUP) -> dict[str, NodeFit]:
    (need,) = rank_nodes(snapshot, group, wanted)
    return {view.node: view for view in need.nodes}


def told(view: NodeFit) -> tuple[str, list[str]]:
    return view.verdict, [f"{lack.code}: {lack.message}" for lack in view.lacks]


def test_every_kind_of_lack_has_its_numbers_and_the_nearest_comes_first() -> None:
    nodes = (
        node("bare", machine(gpus=0)),
        node("busy", H100),
        node("cordoned", H100, state="cordoned"),
        node("labelled", H100, labels={"rack": "b"}),
        node("roomy", H100, labels={"rack": "a"}),
        node("small", SMALL, labels={"rack": "a"}),
    )
    holder = session("holder", gpus=7, cpu=10, designated=frozenset({"busy"}))
    wanted = session("wanted", gpus=4, cpu=8, memory=32 * GIB)
    found = views(settled(nodes, holder), wanted)
    assert list(found) == ["labelled", "roomy", "cordoned", "busy", "bare", "small"]
    assert told(found["roomy"]) == ("room", [])
    assert told(found["cordoned"]) == ("closed", ["state: is cordoned"])
    assert told(found["busy"]) == (
        "short",
        ["GPUs: 3 GPUs short: 1 GPU free of 8 GPUs", "cores: 2 cores short: 6 cores free of 16 cores"],
    )
    assert (found["busy"].lacks[0].needed, found["busy"].lacks[0].has) == (4, 1)
    assert found["busy"].holders == ("holder",)
    assert told(found["small"]) == (
        "too-small",
        ["GPUs: has 2 GPUs, needs 4 GPUs", "cores: has 4 cores, needs 8 cores"],
    )
    assert told(found["bare"])[0] == "too-small"


def test_a_node_kept_for_others_is_closed() -> None:
    kept = NodeReservation("demo", frozenset({"a"}), frozenset({"vip"}), 0.0, 7200.0)
    group = GroupInfo("main", reservations=(kept,))
    found = views(settled((node("a", H100), node("b", H100)), group=group), session("w", gpus=1), group)
    closed = ["reservation: is kept for project vip until 1970-01-01 02:00 UTC (reservation demo)"]
    assert told(found["a"]) == ("closed", closed) and told(found["b"]) == ("room", [])


def test_filters_are_told_with_what_there_is_instead() -> None:
    nodes = (node("a", H100), node("b", H100, labels={"rack": "2"}))
    wanted = session(
        "w",
        gpus=1,
        gpu_models=frozenset({"A100"}),
        node_selector={"rack": "1"},
        designated=frozenset({"c"}),
    )
    found = views(settled(nodes), wanted)
    asked = ["name: is not c", "model: has H100, not A100"]
    assert told(found["a"]) == ("unfit", [*asked, "label: has no label rack, not rack=1"])
    assert told(found["b"]) == ("unfit", [*asked, "label: has rack=2, not rack=1"])


def test_room_over_several_numa_nodes_is_noted() -> None:
    nodes = (node("a", H100),)
    holders = [session(f"h{at}", gpus=3, cpu=2) for at in range(2)]
    found = views(settled(nodes, *holders), session("w", gpus=2, cpu=2))
    assert told(found["a"]) == ("room", []) and found["a"].note == "free only over 2 NUMA nodes"
    spread = views(settled(nodes, *holders), session("w", gpus=2, cpu=2, numa="interleaving"))
    assert spread["a"].note == ""


def test_parts_are_short_by_parts() -> None:
    group = GroupInfo("main", fractional=Fractional(quantum=100, spread="even"))
    nodes = (node("a", machine(numa=1, gpus=2)),)
    holders = [session(f"h{at}", shares=700) for at in range(2)]
    wanted = session("w", shares=500)
    (view,) = views(settled(nodes, *holders, group=group), wanted, group).values()
    assert told(view) == ("short", ["GPU shares: 0.2 GPU short: 0.3 GPU free of 1 GPU"])


def test_parts_that_cannot_be_combined() -> None:
    nodes = (node("a", machine(numa=1, gpus=2)),)
    holders = [session("h0", gpus=1), session("h1", shares=300)]
    (view,) = views(settled(nodes, *holders), session("w", shares=600, kernels=2)).values()
    assert told(view) == ("short", ["devices: the free parts of its devices cannot be combined"])


def test_a_gang_has_one_table_for_each_kind_of_container() -> None:
    equal = rank_nodes(settled((node("a", H100),)), GROUP, session("g", kernels=3, multi_node=True))
    assert [(need.count, need.words) for need in equal] == [(3, "1 core, 1 GiB")]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(1, 6), st.integers(0, 900)), max_size=8),
    st.tuples(st.integers(0, 9), st.integers(1, 20), st.integers(0, 2600)),
    st.sampled_from(["active", "cordoned"]),
    st.sampled_from(["fill", "even"]),
)
def test_a_node_has_room_exactly_when_the_session_is_placed_there(
    held: list[tuple[int, int, int]], asks: tuple[int, int, int], state: str, spread: str
) -> None:
    group = GroupInfo("main", fractional=Fractional(quantum=100, spread=spread))  # type: ignore[arg-type]
    nodes = (node("a", H100), node("b", SMALL), node("c", H100, state=state))
    holders = tuple(session(f"h{at}", gpus=g, cpu=c, shares=s) for at, (g, c, s) in enumerate(held))
    first = place(Snapshot(nodes, (group,), pending=holders))
    requests = {one.id: one for one in holders}
    world = Snapshot(
        nodes, (group,), running=tuple(Running(requests[one.session], one) for one in first.placements)
    )
    gpus, cpu, shares = asks
    found = views(world, session("w", gpus=gpus, cpu=cpu, shares=shares), group)
    for name, view in found.items():
        wanted = session("w", gpus=gpus, cpu=cpu, shares=shares, designated=frozenset({name}))
        alone = Snapshot(nodes, (group,), running=world.running, pending=(wanted,))
        assert (view.verdict == "room") == bool(place(alone).placements)
        assert bool(view.lacks) == (view.verdict != "room")
