"""How well two devices are connected, where that was captured and where it follows from bridges."""

from __future__ import annotations

from typing import Any

import pytest

from planner.model.links import DIRECT, PCI, direct_links, nic_costs, pair_costs, pcie_switches, switch_groups
from schemas.hardware.model import Gpu, Hardware, Link, Nic, NumaNode

NUMA = (NumaNode(id=0, cpus=(0,), memory=1), NumaNode(id=1, cpus=(1,), memory=1))


def gpu(at: int, path: str, numa: int | None = 0) -> Gpu:
    """Below these bridges, from the root port down."""
    return Gpu(id=f"g{at}", index=at, numa_node=numa, pcie_path=tuple(path.split()))


def machine(*gpus: Gpu, **more: Any) -> Hardware:
    return Hardware(numa_nodes=NUMA, gpus=gpus, **more)


@pytest.mark.parametrize(
    ("a", "b", "kind"),
    [
        ("root switch", "root switch", "PIX"),
        ("root switch left", "root switch right", "PIX"),
        ("root switch left", "root switch right deep", "PXB"),
        ("root", "root", "PIX"),
        ("root", "root switch", "PIX"),
        ("root", "root switch left", "PXB"),
        ("root left", "root right", "NODE"),
        ("root", "other", "NODE"),
        ("", "", "NODE"),
    ],
)
def test_a_link_that_was_not_captured_follows_from_the_bridges(a: str, b: str, kind: str) -> None:
    gpus = gpu(0, a), gpu(1, b)
    assert pair_costs(machine(*gpus), gpus) == [[0, PCI[kind]], [PCI[kind], 0]]
    nic = Nic(id="mlx0", numa_node=0, pcie_path=gpus[1].pcie_path)
    assert nic_costs(machine(gpus[0], nics=(nic,)), gpus[:1]) == [list(PCI).index(kind)]


def test_without_a_common_bridge_the_numa_nodes_decide() -> None:
    gpus = gpu(0, "a", 0), gpu(1, "b", 0), gpu(2, "c", 1), gpu(3, "d", None)
    near, far = PCI["NODE"], PCI["SYS"]
    assert pair_costs(machine(*gpus), gpus) == [
        [0, near, far, far],
        [near, 0, far, far],
        [far, far, 0, far],
        [far, far, far, 0],
    ]


def test_what_was_captured_counts_before_what_follows() -> None:
    gpus = gpu(0, "root switch"), gpu(1, "root switch")
    captured = (Link(a="g1", b="g0", kind="PHB"), Link(a="g0", b="g1", kind="NV", count=4))
    assert pair_costs(machine(*gpus, links=captured[:1]), gpus)[0][1] == PCI["PHB"]
    assert pair_costs(machine(*gpus, links=captured), gpus)[0][1] == -4 * DIRECT
    assert pair_costs(machine(*gpus, links=captured[::-1]), gpus)[0][1] == -4 * DIRECT


@pytest.mark.parametrize(
    ("cost", "groups"),
    [(PCI["PIX"], [0, 0]), (PCI["PXB"], [0, 0]), (PCI["PHB"], [0, 1]), (-DIRECT, [0, 1])],
)
def test_devices_of_one_switch_are_a_group(cost: int, groups: list[int]) -> None:
    assert switch_groups([gpu(0, ""), gpu(1, "")], [[0, cost], [cost, 0]]) == groups


def test_a_switch_joins_all_that_are_below_it() -> None:
    gpus = [gpu(0, "a x"), gpu(1, "b y"), gpu(2, "a x"), gpu(3, "b y"), gpu(4, "c")]
    assert switch_groups(gpus, pair_costs(machine(*gpus), gpus)) == [0, 1, 0, 1, 4]


def nic(at: int, path: str = "") -> Nic:
    return Nic(id=f"m{at}", numa_node=0, pcie_path=tuple(path.split()))


def test_gpus_and_nics_below_one_switch_are_together() -> None:
    gpus, nics = (gpu(0, "a x"), gpu(1, "b y"), gpu(2, "a x")), (nic(0, "b y"), nic(1, "c z"))
    assert pcie_switches(machine(*gpus, nics=nics)) == (("g0", "g2"), ("g1", "m0"), ("m1",))


def test_what_was_captured_tells_switches_of_those_whose_bridges_are_not_known() -> None:
    links = (
        Link(a="g0", b="m0", kind="PIX"),
        Link(a="g1", b="m0", kind="PXB"),
        Link(a="g1", b="m1", kind="PHB"),
        Link(a="g0", b="g1", kind="NV", count=4),
    )
    found = machine(gpu(0, ""), gpu(1, ""), gpu(2, ""), nics=(nic(0), nic(1)), links=links)
    assert pcie_switches(found) == (("g0", "g1", "m0"), ("g2",), ("m1",))


def test_direct_links_are_told_by_whom_they_connect() -> None:
    gpus = [gpu(at, "") for at in range(5)]
    links = (
        Link(a="g3", b="g4", kind="NV", count=1),
        Link(a="g0", b="g1", kind="NV", count=2),
        Link(a="g1", b="g2", kind="NV", count=2),
        Link(a="g0", b="g2", kind="PIX"),
    )
    chain, pair = direct_links(machine(*gpus, links=links))
    assert (chain.count, chain.gpus, chain.whole) == (2, ("g0", "g1", "g2"), False)
    assert (pair.count, pair.pairs, pair.whole) == (1, (("g3", "g4"),), True)
    ring = machine(*gpus[:3], links=(*links[1:3], Link(a="g2", b="g0", kind="NV", count=2)))
    assert [each.whole for each in direct_links(ring)] == [True]
    assert direct_links(machine(*gpus)) == ()


def test_parts_that_a_later_pair_joins_are_one() -> None:
    ends = [("g0", "g1"), ("g2", "g3"), ("g1", "g2")]
    links = tuple(Link(a=a, b=b, kind="XGMI") for a, b in ends)
    (found,) = direct_links(machine(*(gpu(at, "") for at in range(4)), links=links))
    assert found.pairs == (("g0", "g1"), ("g1", "g2"), ("g2", "g3"))
