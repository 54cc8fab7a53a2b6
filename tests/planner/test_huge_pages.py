"""Huge pages: none of the memory, given in whole ones, and what is held of them where nobody says where."""

from __future__ import annotations

from planner.model.huge_pages import PageGrant
from planner.model.slots import amount_text, is_device
from planner.model.types import GroupInfo, KernelPlacement, Snapshot
from planner.nodes.node_table import MEMORY, MapperCache, NodeTable
from tests.planner.support import GIB, machine, node, place, session

SMALL, BIG = "hugepages-2Mi", "hugepages-1Gi"
MACHINE = machine(numa=2, cores=4, gpus=0, memory=64 * GIB, hugepages={"2Mi": 4 * GIB, "1Gi": 8 * GIB})


def table() -> NodeTable:
    return NodeTable([node("n0", MACHINE)], MapperCache())


def free(found: NodeTable, slot: str) -> list[int]:
    """Of the node, then of its domains."""
    row = found.page_rows[slot]
    return [int(found.totals[row, 0]), *map(int, found.domains[row, :, 0])]


def held(*grants: PageGrant) -> KernelPlacement:
    return KernelPlacement("main1", "n0", (), 0, (), 0, hugepages=grants)


def test_they_are_none_of_the_memory() -> None:
    found = table()
    assert int(found.totals[MEMORY, 0]) == 52 * GIB
    assert free(found, SMALL) == [4 * GIB, 2 * GIB, 2 * GIB] and free(found, BIG) == [
        8 * GIB,
        4 * GIB,
        4 * GIB,
    ]
    assert amount_text(SMALL, 6 << 20) == "6 MiB of hugepages-2Mi" and not is_device(BIG)


def test_those_of_no_known_numa_node_are_taken_where_there_are_any() -> None:
    found = table()
    assert found.restore(0, "theirs", held(PageGrant(BIG, None, 5 * GIB), PageGrant(SMALL, 1, GIB))) == ()
    assert free(found, BIG) == [3 * GIB, 0, 3 * GIB] and free(found, SMALL) == [3 * GIB, 2 * GIB, GIB]
    # Those that are on record for a node are that node's first.
    assert found.restore(0, "ours", held(PageGrant(BIG, None, GIB), PageGrant(BIG, 1, 2 * GIB))) == ()
    assert free(found, BIG) == [0, 0, 0]
    assert found.restore(0, "more", held(PageGrant(BIG, None, GIB))) == ()
    assert free(found, BIG) == [0, 0, 0], "more than there is"
    found.release({"theirs", "more"})
    assert free(found, BIG) == [5 * GIB, 3 * GIB, 2 * GIB]


def test_what_a_node_has_none_of_is_said() -> None:
    found = NodeTable([node("n0", machine(gpus=0))], MapperCache())
    assert found.restore(0, "s", held(PageGrant(SMALL, 0, GIB))) == (SMALL,)


def test_requests_are_rounded_to_whole_pages_and_many_fill_a_node() -> None:
    wanted = tuple(
        session(f"s{at}", cpu=0, memory=0, hugepages={BIG: GIB + 1}, enqueued=at) for at in range(5)
    )
    outcome = place(Snapshot((node("n0", MACHINE),), (GroupInfo("main"),), pending=wanted))
    given = [sum(one.bytes for one in each.kernels[0].hugepages) for each in outcome.placements]
    assert given == [2 * GIB] * 4
    (wait,) = outcome.waits
    assert wait.reasons[0].code == "no-capacity" and wait.reasons[0].lacks == BIG
