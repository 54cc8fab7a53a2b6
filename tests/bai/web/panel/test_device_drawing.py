"""GPUs, MIG instances and NICs as the picture of a node has them, and what connects them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bai.render.nodes.picture import HeldPlacement
from bai.render.nodes.rows import NodeRow
from bai.web.panel.views.device_drawing import DrawnSwitch, Fabric, fabrics
from bai.web.panel.views.node_drawing import DrawnNode, draw_node
from bai.web.panel.views.node_page import NodePage
from planner.model.types import DeviceGrant, KernelPlacement, NodeInfo, Placement
from schemas.hardware.model import Link, MigDevice, Nic
from tests.bai.plans import machine, placed
from tests.bai.web.panel.rendering import SECRET, assert_harmless, hostile, render


def node(**more: Any) -> NodeInfo:
    """GPUs 0 and 1 on NUMA node 0, 2 and 3 on 1; `mlx5_0` is on a switch with GPU 0, `mlx5_1` alone."""
    made = machine()
    nics = (
        Nic(id="mlx5_0", numa_node=0, link_layer="infiniband", speed_mbps=400_000),
        Nic(id="mlx5_1", numa_node=1),
        Nic(id="eth9"),
    )
    links = (Link(a="GPU-0", b="mlx5_0", kind="PIX"), Link(a="GPU-0", b="mlx5_1", kind="SYS"))
    return replace(
        made,
        hardware=made.hardware.model_copy(update={"nics": nics, "links": links, **more}),
        reserved_cpus=(),
    )


def held(session: str, *devices: str, nics: tuple[str, ...] = (), new: bool = False) -> HeldPlacement:
    (kernel,) = placed(session, (), ()).kernels
    grants = tuple(DeviceGrant(id_, "cuda") for id_ in devices)
    kernels: tuple[KernelPlacement, ...] = (replace(kernel, devices=grants, nics=nics),)
    return HeldPlacement(Placement(session, "a100", kernels), new=new)


def draw(which: NodeInfo, *holdings: HeldPlacement) -> DrawnNode:
    return draw_node("here", which, holdings, lambda identity: SECRET not in identity, own="Session/p/own")


def rendered(drawn: DrawnNode) -> str:
    """As the node's own page has it."""
    page = NodePage(
        row=NodeRow(name="n1", group="", state="active"),
        declared="",
        note="",
        picture=drawn,
        held=(),
        hardware=(),
        summary="",
        profile="",
        profile_lines=(),
        health="",
        health_lines=(),
        labels=(),
        events=(),
    )
    return render("node.html", page=page)


def shape(switches: tuple[DrawnSwitch, ...]) -> list[tuple[list[int], list[str]]]:
    return [([gpu.index for gpu in each.gpus], [nic.name for nic in each.nics]) for each in switches]


def test_devices_are_drawn_by_numa_node_and_switch() -> None:
    drawn = draw(node())
    first, second = drawn.numa_nodes
    assert shape(first.switches) == [([0], ["mlx5_0"]), ([1], [])]
    assert shape(second.switches) == [([2], []), ([3], []), ([], ["mlx5_1"])]
    assert shape(drawn.unlocated) == [([], ["eth9"])]
    assert [each.shared for each in first.switches] == [True, False]
    text = rendered(drawn)
    assert text.count("Below one PCIe switch") == 1 and "Devices whose NUMA node is not known" in text


def test_a_nic_has_those_who_use_it_whether_it_was_granted_or_goes_with_a_gpu() -> None:
    drawn = draw(
        node(),
        held("Session/p/own", "GPU-0", nics=("mlx5_0",)),
        held("Session/p/other", "mlx5_0", nics=("mlx5_0",), new=True),
        held(f"Session/{SECRET}/x", "GPU-1", nics=("mlx5_0",)),
        held(f"Session/{SECRET}/y", "GPU-1", nics=("mlx5_0",)),
    )
    nic = drawn.numa_nodes[0].switches[0].nics[0]
    assert nic.title == "mlx5_0 infiniband 400 Gbit/s: p/own, p/other, another project"
    assert (nic.use, nic.own) == ("new", True)
    assert drawn.numa_nodes[1].switches[2].nics[0].title == "mlx5_1: free"
    assert SECRET not in rendered(drawn)


def test_instances_of_a_gpu_are_drawn_one_by_one() -> None:
    made = node()
    parts = (
        MigDevice(id="MIG-a", profile="3g.40gb", start=0, size=4),
        MigDevice(id="MIG-b", profile="1g.10gb", start=4, size=1),
        MigDevice(id="MIG-c", profile="1g.10gb", start=5, size=1),
    )
    gpus = (made.hardware.gpus[0].model_copy(update={"mig": "enabled", "mig_devices": parts}),)
    lost = frozenset({"MIG-c"})
    drawn = draw(
        replace(node(gpus=gpus), unhealthy=lost, ailing={"MIG-c": "a row failed"}),
        held("Session/p/own", "MIG-a"),
        held(f"Session/{SECRET}/x", "MIG-b"),
    )
    tile = drawn.numa_nodes[0].switches[0].gpus[0]
    assert [(each.use, each.slices, each.title) for each in tile.instances] == [
        ("busy", 4, "3g.40gb: p/own"),
        ("busy", 1, "1g.10gb: another project"),
        ("offline", 1, "1g.10gb: takes no sessions: a row failed"),
    ]
    assert [(each.text, each.milli) for each in tile.holders] == [("p/own", 333), ("another project", 333)]
    text = rendered(drawn)
    assert 'class="s4 cell busy' in text and "<meter" not in text and SECRET not in text


def test_what_connects_gpus_directly_is_told() -> None:
    every = tuple(Link(a=f"GPU-{a}", b=f"GPU-{b}", kind="NV", count=18) for a in range(4) for b in range(a))
    assert fabrics(node(links=every, nv_switches=4).hardware) == (
        Fabric("NVLink", "GPU 0-3, each with each by 18 links, 4 NVSwitches"),
    )
    pairs = (
        Link(a="GPU-0", b="GPU-1", kind="NV", count=4),
        Link(a="GPU-2", b="GPU-3", kind="NV", count=4),
    )
    assert [each.text for each in fabrics(node(links=pairs).hardware)] == [
        "GPU 0-1 by 4 links",
        "GPU 2-3 by 4 links",
    ]
    ring = tuple(Link(a=f"GPU-{at}", b=f"GPU-{(at + 1) % 4}", kind="XGMI") for at in range(4))
    assert fabrics(node(links=ring).hardware) == (Fabric("xGMI", "GPU 0-1, 0-3, 1-2, 2-3 by 1 link"),)
    assert fabrics(node(links=()).hardware) == ()


def test_what_is_hostile_stays_text() -> None:
    assert_harmless(rendered(hostile(draw(node(), held("Session/p/own", "mlx5_0")))))
