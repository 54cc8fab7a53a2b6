"""NCCL topologies as written by us, read back by our own importer: the same machine."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import fromstring

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.hardware.capture_reader import HardwareError, read_hardware
from schemas.hardware.exporters.nccl import DeviceSubset, export_nccl, export_problem
from schemas.hardware.importers import import_captures
from schemas.hardware.importers.nccl import read_nccl
from schemas.hardware.model import Gpu, Hardware, Link, Nic, NumaNode

DATA = Path(__file__).parents[2] / "data/topology"
Pair = tuple[str, str]


WRITABLE = (
    "hwloc-xml/24em64t-2n6c2t-pci.xml",
    "hwloc-xml/nvidiaDGX2.xml",
    "hwloc-xml-mpibind/coral-lassen.xml",
    "hwloc-xml-mpibind/epyc-corona.xml",
    "hwloc-xml-mpibind/g4dnmetal.xml",
    "nccl-xml/aws-p4d-24xl-topo.xml",
    "nccl-xml/azure-ncv4-topo.xml",
    "nccl-xml/azure-ndv2-topo.xml",
    "nccl-xml/azure-ndv4-topo.xml",
    "nccl-xml/azure-ndv5-topo.xml",
    "nccl-xml/oci-H100-topology.xml",
    "nccl-xml-rccl/topo_16p1h.xml",
    "nccl-xml-rccl/topo_8p1h.xml",
    "nccl-xml-rccl/topo_8p_4nics.xml",
    "nccl-xml-rccl/topo_8p_90a.xml",
    "nccl-xml-rccl/topo_8p_rome_n4.xml",
)
"""Every capture of which a NCCL topology can be written. To find them takes a second, in each worker."""


@functools.cache
def captured(name: str) -> Hardware:
    return read_hardware(name, (DATA / name).read_bytes())


def writable() -> Iterator[str]:
    for path in DATA.glob("*/*"):
        name = f"{path.parent.name}/{path.name}"
        with contextlib.suppress(HardwareError, IsADirectoryError):
            if not export_problem(captured(name)):
                yield name


def address(hardware: Hardware) -> dict[str, str]:
    """Devices by id: ids differ between captures, addresses do not. Ports of one NIC share their address."""
    names = {gpu.id: f"gpu {gpu.pci}" for gpu in hardware.gpus}
    return names | {nic.id: f"nic {nic.pci} {nic.id}" for nic in hardware.nics}


def links(hardware: Hardware) -> dict[Pair, tuple[str, int]]:
    """Pairs with what connects them, as far as a NCCL tree can tell: it has no host bridges, and a switch is
    one bridge in it, not two."""
    same = {"PHB": "NODE", "PXB": "PIX"}
    names = address(hardware)
    found = {}
    for link in hardware.links:
        a, b = sorted((names[link.a], names[link.b]))
        found[a, b] = (same.get(link.kind, link.kind), link.count)
    return found


def slot(name: str) -> str:
    """The card: NCCL's tree does not tell that two functions of one card share its port."""
    return name.split()[1].partition(".")[0]


@pytest.mark.slow
def test_no_capture_that_can_be_written_is_left_out() -> None:
    assert sorted(writable()) == sorted(WRITABLE)


@pytest.mark.parametrize("name", sorted(WRITABLE))
def test_what_is_written_is_read_back(name: str) -> None:
    machine = captured(name)
    again = import_captures([export_nccl(machine).encode()])
    nodes = {numa.id: numa.cpus for numa in machine.numa_nodes}
    assert {numa.id: numa.cpus for numa in again.numa_nodes} == {
        numa: cpus for numa, cpus in nodes.items() if cpus or numa in {n.id for n in again.numa_nodes}
    }
    assert again.architecture == machine.architecture
    facts = [(gpu.pci, gpu.index, gpu.numa_node, gpu.slot) for gpu in again.gpus]
    assert sorted(facts) == sorted((gpu.pci, gpu.index, gpu.numa_node, gpu.slot) for gpu in machine.gpus)
    ports = [(nic.id, nic.pci, nic.numa_node, nic.speed_mbps or None) for nic in again.nics]
    assert sorted(ports, key=str) == sorted(
        ((nic.id, nic.pci, nic.numa_node, nic.speed_mbps or None) for nic in machine.nics), key=str
    )
    before, after = links(machine), links(again)
    direct = {pair: link for pair, link in before.items() if link[0] in ("NV", "XGMI")}
    assert {pair: link for pair, link in after.items() if link[0] in ("NV", "XGMI")} == direct
    if all(gpu.pcie_path for gpu in machine.gpus):
        apart = {pair: link for pair, link in before.items() if slot(pair[0]) != slot(pair[1])}
        assert {pair: after[pair] for pair in apart} == apart


@given(st.data())
def test_only_what_a_container_was_given_is_named(data: st.DataObject) -> None:
    machine = captured(data.draw(st.sampled_from(sorted(WRITABLE))))
    gpus = data.draw(st.sets(st.sampled_from([gpu.id for gpu in machine.gpus]), min_size=1))
    nics = data.draw(st.sets(st.sampled_from([nic.id for nic in machine.nics]))) if machine.nics else set()
    text = export_nccl(machine, DeviceSubset(gpus, nics))
    facts = read_nccl(text.encode())
    assert {gpu["pci"] for gpu in facts.gpus or ()} == {g.pci for g in machine.gpus if g.id in gpus}
    assert {nic["pci"] for nic in facts.nics or ()} == {n.pci for n in machine.nics if n.id in nics}
    assert {gpu["numa_node"] for gpu in facts.gpus or ()} == {
        g.numa_node for g in machine.gpus if g.id in gpus
    }
    numbered = [gpu for gpu in fromstring(text).iter("gpu") if gpu.get("dev") is not None]
    assert len(numbered) == (len(gpus) if len(gpus) == len(machine.gpus) else 0)
    assert not [gpu for gpu in fromstring(text).iter("gpu") if gpu.get("rank") is not None]


def machine(**fields: object) -> Hardware:
    values: dict[str, object] = {"numa_nodes": (NumaNode(id=0, cpus=(0, 1)),)}
    return Hardware.model_validate(values | fields)


def gpu(index: int, path: tuple[str, ...] = (), **fields: object) -> Gpu:
    values = {"id": f"g{index}", "index": index, "pci": f"0000:0{index + 1}:00.0", "numa_node": 0}
    return Gpu.model_validate(values | {"pcie_path": path} | fields)


def test_a_switch_is_one_bridge_for_nccl() -> None:
    below = ("0000:00:01.0", "0000:10:00.0")
    nic = Nic(id="mlx5_0", pci="0000:09:00.0", numa_node=0, pcie_path=(*below, "0000:11:01.0"))
    written = export_nccl(machine(gpus=(gpu(0, (*below, "0000:11:00.0")),), nics=(nic,)))
    assert [pci.get("busid") for pci in fromstring(written).iter("pci")] == [
        "0000:10:00.0",
        "0000:01:00.0",
        "0000:09:00.0",
    ]


def test_a_card_of_two_functions_is_no_switch() -> None:
    """Next to it, ports of real switches are still left out."""
    card = tuple(
        Nic(id=f"mlx5_{at}", pci=f"0000:0a:00.{at}", numa_node=0, pcie_path=("0000:00:02.0",))
        for at in (1, 2)
    )
    path = ("0000:00:01.0", "0000:10:00.0", "0000:11:00.0")
    written = export_nccl(machine(gpus=(gpu(0, path),), nics=card))
    bridges = [pci.get("busid") for pci in fromstring(written).iter("pci") if pci.get("class") == "0x060400"]
    assert bridges == ["0000:10:00.0"]


def test_links_into_switches_are_spread_over_them() -> None:
    four = tuple(gpu(index) for index in range(4))
    all_pairs = tuple(
        Link(a=f"g{a}", b=f"g{b}", kind="NV", count=18) for a in range(4) for b in range(a + 1, 4)
    )
    written = fromstring(export_nccl(machine(gpus=four, links=all_pairs, nv_switches=4)))
    for element in written.iter("gpu"):
        assert [link.get("count") for link in element] == ["5", "5", "4", "4"]
        assert {link.get("tclass") for link in element} == {"0x068000"}
    unseen = fromstring(export_nccl(machine(gpus=four, links=all_pairs)))
    assert [link.get("count") for link in unseen.iter("nvlink")] == ["18"] * 4


@pytest.mark.parametrize(
    ("hardware", "why"),
    [
        (machine(), "no GPU"),
        (machine(gpus=(gpu(0, pci=None),)), "PCI address of g0"),
        (machine(gpus=(gpu(0, numa_node=None),)), "NUMA node of g0"),
        (machine(gpus=(gpu(0), gpu(1, pci="0000:01:00.0"))), "one PCI address"),
        (machine(gpus=(gpu(0, slot="tpu"),)), "neither NCCL nor RCCL"),
        (machine(gpus=(gpu(0, ("0000:01:00.0",)),)), "bridge of another"),
        (
            machine(gpus=(gpu(0, ("0000:a0:00.0", "0000:b0:00.0")), gpu(1, ("0000:b0:00.0",)))),
            "bridge 0000:b0:00.0",
        ),
    ],
)
def test_what_cannot_be_written_is_refused_with_a_reason(hardware: Hardware, why: str) -> None:
    assert why in export_problem(hardware)
    with pytest.raises(ValueError, match=re.escape(why)):
        export_nccl(hardware)


def test_nccls_own_parser_can_read_it() -> None:
    """It knows no space before the end of a tag, no declaration, and no text between tags."""
    text = export_nccl(captured("nccl-xml/oci-H100-topology.xml"))
    assert " />" not in text and " >" not in text and "<?" not in text
    assert all(line.strip().startswith("<") and line.endswith(">") for line in text.splitlines())
