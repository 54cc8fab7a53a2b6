"""Captures of real machines, read: the facts that are known about each are asserted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from schemas.hardware.capture_reader import HardwareError, read_captures, read_hardware
from schemas.hardware.cpulist import parse_cpus
from schemas.hardware.importers import UnreadableCapture, import_captures, recognise
from schemas.hardware.model import Hardware

DATA = Path(__file__).parents[2] / "data/topology"
NOT_MACHINES = {"facts/issue-topologies.json", "nccl-xml/azure-ncv4-graph.xml"}


def captured(*names: str) -> Hardware:
    return import_captures([(DATA / name).read_bytes() for name in names])


def files() -> list[str]:
    paths = (path.relative_to(DATA) for path in DATA.glob("*/*"))
    kept = (
        path
        for path in paths
        if path.name != "ORIGIN.txt" and path.suffix not in (".console", ".test", ".yaml")
    )
    return sorted(str(path) for path in kept)


def kinds(found: Hardware) -> dict[tuple[str, int], int]:
    counted: dict[tuple[str, int], int] = {}
    for link in found.links:
        counted[link.kind, link.count] = counted.get((link.kind, link.count), 0) + 1
    return counted


def link(found: Hardware, a: str, b: str) -> tuple[str, int]:
    (only,) = [each for each in found.links if {each.a, each.b} == {a, b}]
    return only.kind, only.count


@pytest.mark.parametrize("name", files())
def test_every_capture_is_read_or_refused_with_a_reason(name: str) -> None:
    data = (DATA / name).read_bytes()
    if name in NOT_MACHINES:
        with pytest.raises(HardwareError) as caught:
            read_hardware(name, data)
        assert caught.value.problems[0].message
        return
    found = read_hardware(name, data)
    cpus = [cpu for node in found.numa_nodes for cpu in node.cpus]
    assert len(cpus) == len(set(cpus)), "a CPU is of one node"
    assert {cpu for core in found.siblings for cpu in core} <= set(cpus)
    ids = [gpu.id for gpu in found.gpus] + [nic.id for nic in found.nics]
    assert len(ids) == len(set(ids))
    assert {end for each in found.links for end in (each.a, each.b)} <= set(ids)
    nodes = {node.id for node in found.numa_nodes}
    near = {gpu.numa_node for gpu in found.gpus} | {nic.numa_node for nic in found.nics}
    assert near <= nodes | {None}


def test_dgx2_from_hwloc_3() -> None:
    found = captured("hwloc-xml/nvidiaDGX2.xml")
    assert [(node.id, node.cpus, node.distances) for node in found.numa_nodes] == [
        (0, (0, 1), {1: 21}),
        (1, (24, 25), {0: 21}),
    ]
    assert found.numa_nodes[0].memory == 810234351616
    assert len(found.gpus) == 16
    assert [gpu.numa_node for gpu in found.gpus] == [0] * 8 + [1] * 8
    assert {gpu.model for gpu in found.gpus} == {"Tesla V100-SXM3-32GB-H"}
    assert kinds(found) == {("NV", 6): 120}, "six NVLinks from every GPU into the switches"
    assert found.nv_switches == 12


def test_lassen_from_hwloc_2() -> None:
    found = captured("hwloc-xml-mpibind/coral-lassen.xml")
    assert [(node.id, len(node.cpus), node.distances) for node in found.numa_nodes] == [
        (0, 80, {8: 40}),
        (8, 80, {0: 40}),
    ]
    assert {len(core) for core in found.siblings} == {4}
    assert [(gpu.pci, gpu.numa_node) for gpu in found.gpus] == [
        ("0004:04:00.0", 0), ("0004:05:00.0", 0), ("0035:03:00.0", 8), ("0035:04:00.0", 8)]  # fmt: skip
    assert [nic.id for nic in found.nics] == ["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"]
    assert (found.architecture, found.hostname) == ("ppc64le", "lassen28")
    assert any("NVLinks" in words for words in found.unknown)


def test_corona_has_its_gpus_on_four_of_eight_nodes() -> None:
    found = captured("hwloc-xml-mpibind/epyc-corona.xml")
    assert [gpu.numa_node for gpu in found.gpus] == [1, 2, 5, 7]
    assert {(gpu.slot, gpu.vendor, gpu.memory) for gpu in found.gpus} == {("rocm", "amd", 33538048 * 1024)}
    assert found.numa_nodes[0].distances == {1: 16, 2: 16, 3: 16, 4: 32, 5: 32, 6: 32, 7: 32}


def test_g4dn_from_hwloc() -> None:
    found = captured("hwloc-xml-mpibind/g4dnmetal.xml")
    assert {gpu.model for gpu in found.gpus} == {"Tesla T4"}
    assert [gpu.numa_node for gpu in found.gpus] == [0] * 4 + [1] * 4
    assert [(nic.id, nic.numa_node) for nic in found.nics] == [("rdmap197s0", 1)]
    assert len(found.siblings) == 48


def test_fast_memory_beside_dram_has_no_cpus() -> None:
    found = captured("hwloc-xml/64intel64-heteromem.xml")
    assert [(node.kind, len(node.cpus)) for node in found.numa_nodes] == [("dram", 16)] * 4 + [("hbm", 0)] * 4


def test_a_server_console_is_no_gpu() -> None:
    found = captured("hwloc-xml/96em64t-4n4d3ca2co-pci.xml")
    assert found.gpus == ()
    assert found.numa_nodes[0].distances == {1: 26, 2: 26, 3: 26}


def test_hwloc_1_with_relative_latencies_and_nested_nodes() -> None:
    xml = b"""<?xml version="1.0"?><!DOCTYPE topology SYSTEM "hwloc.dtd"><topology>
    <object type="Machine" os_index="0" cpuset="0x0000000f" complete_cpuset="0x0000001f"
            online_cpuset="0x0000000f">
      <distances nbobjs="2" relative_depth="1" latency_base="10.000000">
        <latency value="1.000000"/><latency value="2.100000"/>
        <latency value="2.100000"/><latency value="1.000000"/>
      </distances>
      <info name="OSRelease" value="2.6.32"/>
      <object type="NUMANode" os_index="0" cpuset="0x00000003" local_memory="4096">
        <object type="Core" os_index="0" cpuset="0x00000003">
          <object type="PU" os_index="0" cpuset="0x00000001"/>
          <object type="PU" os_index="1" cpuset="0x00000002"/>
        </object></object>
      <object type="NUMANode" os_index="1" cpuset="0x0000000c" local_memory="8192">
        <object type="Core" os_index="1" cpuset="0x0000000c">
          <object type="PU" os_index="2" cpuset="0x00000004"/>
          <object type="PU" os_index="3" cpuset="0x00000008"/>
        </object></object>
    </object></topology>"""
    found = import_captures([xml])
    assert [(node.cpus, node.memory, node.distances) for node in found.numa_nodes] == [
        ((0, 1), 4096, {1: 21}), ((2, 3), 8192, {0: 21})]  # fmt: skip
    assert (found.siblings, found.offline_cpus) == (((0, 1), (2, 3)), (4,))


def test_p4d_from_nccl() -> None:
    found = captured("nccl-xml/aws-p4d-24xl-topo.xml")
    assert found.numa_nodes[0].cpus == parse_cpus("0-23,48-71")
    assert [gpu.numa_node for gpu in found.gpus] == [0] * 4 + [1] * 4
    assert link(found, "0000:10:1c.0", "0000:10:1b.0") == ("PIX", 1)
    assert link(found, "0000:10:1c.0", "0000:20:1b.0") == ("PHB", 1)
    assert link(found, "0000:10:1c.0", "0000:a0:1b.0") == ("SYS", 1)


def test_h100_from_nccl_with_switches_and_two_port_nics() -> None:
    found = captured("nccl-xml/oci-H100-topology.xml")
    assert [gpu.index for gpu in found.gpus] == list(range(8))
    assert kinds(found)["NV", 18] == 28
    assert found.nv_switches == 4
    assert [(nic.id, nic.speed_mbps) for nic in found.nics[:2]] == [("mlx5_0", 180000), ("mlx5_1", 180000)]
    assert link(found, found.gpus[0].id, "mlx5_0") == ("PIX", 1)


def test_mi200_from_rccl() -> None:
    found = captured("nccl-xml-rccl/topo_8p1h.xml")
    assert {gpu.slot for gpu in found.gpus} == {"rocm"}
    assert link(found, "0000:29:00.0", "0000:2c:00.0") == ("XGMI", 4)


def test_a_graph_file_is_refused_as_one() -> None:
    with pytest.raises(UnreadableCapture, match="graph file"):
        captured("nccl-xml/azure-ncv4-graph.xml")


def test_h100_from_topo() -> None:
    found = captured("nvidia-smi-topo/h100-8gpu-nv18-192t-spaces.txt")
    assert [node.cpus for node in found.numa_nodes] == [
        parse_cpus("0-47,96-143"),
        parse_cpus("48-95,144-191"),
    ]
    assert [gpu.numa_node for gpu in found.gpus] == [0] * 4 + [1] * 4
    assert kinds(found) == {("NV", 18): 28}
    assert "PCI addresses of GPUs" in found.unknown


def test_nics_take_the_names_of_the_legend_and_the_node_of_near_gpus() -> None:
    found = captured("nvidia-smi-topo/rtx6000ada-4gpu-4nic-esc8000a.txt")
    assert [(nic.id, nic.numa_node) for nic in found.nics] == [
        ("mlx5_0", 0),
        ("mlx5_1", 0),
        ("mlx5_2", 1),
        ("mlx5_3", 1),
    ]
    assert link(found, "gpu0", "mlx5_0") == ("NODE", 1)
    assert link(found, "mlx5_0", "mlx5_1") == ("PIX", 1)


def test_a_matrix_without_a_numa_column_counts_nodes_by_their_cpus() -> None:
    found = captured("nvidia-smi-topo/v100-8gpu-hybridcube-1nic.txt")
    assert [node.cpus for node in found.numa_nodes] == [parse_cpus("0-11,24-35"), parse_cpus("12-23,36-47")]
    assert (link(found, "gpu0", "gpu3"), link(found, "gpu0", "gpu1"), link(found, "gpu0", "gpu5")) == (
        ("NV", 2), ("NV", 1), ("SYS", 1))  # fmt: skip
    assert link(found, "gpu2", "mlx5_0") == ("PIX", 1)
    assert any("taken in the order of their CPUs" in words for words in found.unknown)


def test_eight_nodes_of_which_four_are_seen() -> None:
    found = captured("nvidia-smi-topo/levante-a100-4gpu-2nic-8numa-topo-mp.txt")
    assert [gpu.numa_node for gpu in found.gpus] == [3, 1, 7, 5]
    assert [nic.numa_node for nic in found.nics] == [1, 7]
    assert "NUMA nodes that no GPU is near" in found.unknown


GRACE = """\
\t\x1b[4mGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m
GPU0\t X \tNV18\t0-71\t0,3-9,11-17\t2
GPU1\tNV18\t X \t72-143\t1,19-25,27-33\t18
"""


def test_grace_lists_of_numa_nodes_and_gpu_memory_nodes() -> None:
    found = import_captures([GRACE.encode()])
    assert [gpu.numa_node for gpu in found.gpus] == [0, 1]
    by_id = {node.id: node for node in found.numa_nodes}
    assert (by_id[0].cpus, by_id[1].cpus) == (parse_cpus("0-71"), parse_cpus("72-143"))
    assert {number for number, node in by_id.items() if node.kind == "gpu"} == {2, 18}
    assert by_id[5].cpus == ()


def test_a_truncated_matrix_keeps_what_is_there() -> None:
    whole = (DATA / "nvidia-smi-topo/v100-8gpu-hybridcube-1nic.txt").read_text().splitlines()
    found = import_captures(["\n".join(whole[:4]).encode()])
    assert len(found.gpus) == 8
    assert link(found, "gpu0", "gpu7") == ("SYS", 1)
    assert [gpu.numa_node for gpu in found.gpus[:3]] == [0, 0, 0]
    assert any("rows are cut off" in words for words in found.unknown)


def test_columns_without_a_value() -> None:
    text = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tPHB\t\tN/A\nGPU1\tPHB\t X \t\tN/A\n"
    found = import_captures([text.encode()])
    assert [gpu.numa_node for gpu in found.gpus] == [None, None]
    assert kinds(found) == {("PHB", 1): 1}


def test_the_peer_to_peer_matrix_is_another_one() -> None:
    with pytest.raises(UnreadableCapture, match="topo -p2p"):
        import_captures([b" \tGPU0\tGPU1\n GPU0\tX\tOK\n GPU1\tOK\tX\n"])


def test_smi_query() -> None:
    found = captured("nvidia-smi-qx/qx-h100.xml")
    assert len(found.gpus) == 8
    assert (found.gpus[0].model, found.gpus[0].pci, found.gpus[0].memory) == (
        "NVIDIA H100 80GB HBM3",
        "0000:53:00.0",
        81559 << 20,
    )
    assert (found.software.nvidia_driver, found.software.cuda) == ("580.105.08", "13.0")
    assert {gpu.mig for gpu in found.gpus} == {"disabled"}
    assert {"NUMA nodes and CPUs", "links between GPUs"} <= set(found.unknown)


def test_mig_in_smi_query() -> None:
    (gpu,) = captured("nvidia-smi-qx/telegraf-a100-sxm4-v12.xml").gpus
    assert gpu.mig == "enabled"
    assert {device.profile for device in gpu.mig_devices} == {"1g.20gb"}


def test_an_unfit_gpu_in_smi_query() -> None:
    text = (DATA / "nvidia-smi-qx/qx-a100.xml").read_text()
    assert import_captures([text.encode()]).gpus[0].healthy
    broken = text.replace("<remapped_row_pending>No<", "<remapped_row_pending>Yes<")
    assert broken != text
    (gpu,) = import_captures([broken.encode()]).gpus
    assert (gpu.healthy, gpu.health) == (False, ("row remapping pending: reset the GPU",))


def test_numactl() -> None:
    found = captured("numactl/cscs-epyc7742-nps4-8node.txt")
    assert found.numa_nodes[3].cpus == parse_cpus("48-63,176-191")
    assert found.numa_nodes[0].memory == 63733 << 20
    assert found.numa_nodes[0].distances == {1: 12, 2: 12, 3: 12, 4: 32, 5: 32, 6: 32, 7: 32}


def test_lscpu_in_four_forms_says_the_same() -> None:
    plain = captured("lscpu/wrx90.txt")
    assert (plain.architecture, plain.numa_nodes[0].cpus, plain.siblings) == ("x86_64", tuple(range(24)), ())
    assert captured("lscpu/wrx90-lscpu-e.txt").numa_nodes == plain.numa_nodes
    fields = {"Architecture:": "x86_64", "NUMA node0 CPU(s):": "0-23"}
    as_json = {"lscpu": [{"field": name, "data": value} for name, value in fields.items()]}
    assert read_hardware("cpu.json", json.dumps(as_json).encode()).numa_nodes == plain.numa_nodes
    rows = "".join(f"{cpu},{cpu},0,0\n" for cpu in range(24))
    assert import_captures([f"# CPU,Core,Socket,Node\n{rows}".encode()]).numa_nodes == plain.numa_nodes


def test_lscpu_table_knows_threads_and_offline_cpus() -> None:
    text = "CPU NODE SOCKET CORE ONLINE\n0 0 0 0 yes\n1 0 0 1 yes\n2 0 0 0 yes\n3 - - - no\n"
    found = import_captures([text.encode()])
    assert (found.siblings, found.offline_cpus, found.numa_nodes[0].cpus) == (((0, 2),), (3,), (0, 1, 2))


@pytest.mark.parametrize(
    ("name", "nodes", "cpus", "cores", "offline"),
    [
        ("16amd64-8n2c", 8, 16, 0, 0),
        ("16em64t-4s2c2t", 1, 16, 8, 0),
        ("16em64t-4s2c2t-offlines", 1, 12, 5, 4),
        ("256ia64-64n2s2c", 64, 256, 0, 0),
        ("128arm-2pa2n8cluster4co", 4, 128, 0, 0),
    ],
)
def test_snapshots_of_sys(name: str, nodes: int, cpus: int, cores: int, offline: int) -> None:
    found = captured(f"hwloc-linux/{name}.tar.bz2")
    assert len(found.numa_nodes) == nodes
    assert sum(len(node.cpus) for node in found.numa_nodes) == cpus
    assert (len(found.siblings), len(found.offline_cpus)) == (cores, offline)
    assert all(len(node.distances) == nodes - 1 for node in found.numa_nodes)


def test_a_transcript_of_commands_is_read_as_its_captures() -> None:
    found = captured("machine-reports/asus-esc8000a-e12.md")
    assert [(len(node.cpus), node.memory >> 20, node.distances) for node in found.numa_nodes] == [
        (32, 193129, {1: 32}), (32, 193477, {0: 32})]  # fmt: skip
    assert [gpu.numa_node for gpu in found.gpus] == [0, 0, 1, 1]
    assert [nic.id for nic in found.nics] == ["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"]
    assert found.architecture == "x86_64"


@pytest.mark.parametrize(
    "prompt", ["$ ", "# ", "root@gpu-1:~# ", "[me@gpu-1 ~]$ ", "(base) me@gpu-1:/data/x$ ", "$ me@gpu-1:~$ "]
)
def test_prompts_of_all_usual_kinds_part_a_transcript(prompt: str) -> None:
    numactl = (DATA / "numactl/cscs-epyc7742-nps4-8node.txt").read_text()
    topo = "\tGPU0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t0-15,128-143\t0\n"
    commands = {"nvidia-smi topo -m": topo, "uptime": "up 3 days\n", "numactl -H": numactl}
    text = "".join(f"{prompt}{command}\n{output}" for command, output in commands.items())
    found = import_captures([text.encode()])
    assert len(found.numa_nodes) == 8
    assert [gpu.numa_node for gpu in found.gpus] == [0]


@pytest.mark.parametrize(
    "name", ["numactl/esc8000a-e12-2node.txt", "lscpu/wrx90.txt", "nvidia-smi-topo/pcie-8gpu-allsys.txt"]
)
def test_line_ends_and_byte_order_marks_do_not_matter(name: str) -> None:
    data = (DATA / name).read_bytes()
    assert import_captures([b"\xef\xbb\xbf" + data.replace(b"\n", b"\r\n")]) == import_captures([data])


def test_gpus_unevenly_and_backwards_over_nodes() -> None:
    near = [3, 3, 3, 1, 2, 2, 0, 0]
    header = "".join(f"\tGPU{n}" for n in range(8)) + "\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
    rows = "".join(
        f"GPU{n}\t"
        + "\t".join(" X " if n == m else "NV18" for m in range(8))
        + f"\t{near[n] * 4}-{near[n] * 4 + 3}\t{near[n]}\t\tN/A\n"
        for n in range(8)
    )
    found = import_captures([(header + rows).encode()])
    assert [gpu.numa_node for gpu in found.gpus] == near
    assert [node.cpus for node in found.numa_nodes] == [tuple(range(n * 4, n * 4 + 4)) for n in range(4)]


def test_captures_of_one_machine_complete_each_other() -> None:
    topo = (DATA / "nvidia-smi-topo/h100-8gpu-nv18-192t-spaces.txt").read_bytes()
    query = (DATA / "nvidia-smi-qx/qx-h100.xml").read_bytes()
    cpus = [" ".join(map(str, parse_cpus(each))) for each in ("0-47,96-143", "48-95,144-191")]
    numactl = "".join(f"node {n} cpus: {each}\nnode {n} size: 1000 MB\n" for n, each in enumerate(cpus))
    numactl += "node   0   1\n  0:  10  21\n  1:  21  10\n"
    for order in ([topo, query, numactl.encode()], [numactl.encode(), query, topo]):
        found = import_captures(order)
        assert found.gpus[7].pci is not None
        assert (found.gpus[7].model, found.gpus[7].numa_node) == ("NVIDIA H100 80GB HBM3", 1)
        assert link(found, found.gpus[0].id, found.gpus[7].id) == ("NV", 18)
        assert found.numa_nodes[1].memory == 1000 << 20
        assert set(found.unknown) == {"architecture", "SMT siblings", "drives"}


def test_a_saved_machine_is_completed_by_a_later_capture() -> None:
    numactl = captured("numactl/esc8000a-e12-2node.txt").model_dump_json(by_alias=True, exclude_defaults=True)
    topo = (DATA / "nvidia-smi-topo/rtx6000ada-4gpu-4nic-esc8000a.txt").read_bytes()
    found = read_captures([("node.json", numactl.encode()), ("topo.txt", topo)])
    assert [gpu.numa_node for gpu in found.gpus] == [0, 0, 1, 1]
    assert found.numa_nodes[0].memory == 193129 << 20
    assert "GPUs" not in found.unknown
    assert "drives" in found.unknown
    with pytest.raises(HardwareError, match="not a known capture"):
        read_captures([("node.json", numactl.encode()), ("x.txt", b"hello")])


def test_captures_that_contradict_each_other_say_so() -> None:
    topo = b"\tGPU0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t0-3\t0\n"
    lscpu = b"Architecture: x86_64\nNUMA node0 CPU(s): 0-7\n"
    found = import_captures([topo, lscpu])
    assert found.numa_nodes[0].cpus == tuple(range(8)), (
        "lscpu sees the whole machine, a job's topo -m may not"
    )
    assert "CPUs of NUMA node 0: 0-7 by lscpu, but 0-3 by nvidia-smi topo -m" in found.unknown


def test_captures_of_two_machines_are_refused() -> None:
    with pytest.raises(UnreadableCapture, match="different machines"):
        captured("hwloc-xml-mpibind/coral-lassen.xml", "hwloc-xml-mpibind/epyc-corona.xml")


@pytest.mark.parametrize(
    "data",
    [
        b"", b"hello", b"\x00\xff\xfe", b"<topology", b"<topology/>", b"<system/>",
        b"<system version='1'><cpu numaid='x'/></system>",
        b"<!DOCTYPE a [<!ENTITY b 'c'>]><topology>&b;</topology>", b"<topology>" * 300 + b"</topology>" * 300,
        b"\x1f\x8b\x08broken", b"BZh9broken", b"node 0 cpus: 0 1 x", b"node 9999 cpus: 0",
        b"CPU NODE\n0 x\n", b"<nvidia_smi_log><gpu id='x'/></nvidia_smi_log>", b"NUMA node0 CPU(s): 5-1",
    ],
)  # fmt: skip
def test_what_is_not_a_capture_is_refused_in_words(data: bytes) -> None:
    with pytest.raises(UnreadableCapture, match=r"\w+ \w+"):
        import_captures([data])


def test_recognise_goes_by_content() -> None:
    names = {
        "hwloc-xml": "hwloc XML",
        "hwloc-linux": "snapshot of /sys (tar)",
        "numactl": "numactl -H",
        "nvidia-smi-qx": "nvidia-smi -q -x",
        "nvidia-smi-topo": "nvidia-smi topo -m",
    }
    for folder, name in names.items():
        for path in (DATA / folder).glob("*"):
            if path.suffix in (".xml", ".bz2") or (path.suffix == ".txt" and path.name != "ORIGIN.txt"):
                found = recognise(path.read_bytes())
                assert found is not None
                assert found.name == name
