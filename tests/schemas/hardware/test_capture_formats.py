"""Captures in other forms than the tool's own: pasted, quoted, wrapped, cut, doubled. Each fact that is read
is held against what the capture was written from, or against a reader of a few lines that knows nothing of
the importers; what cannot be known is under `unknown`."""

from __future__ import annotations

import io
import itertools
import re
import tarfile
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from schemas.hardware.capture_reader import HardwareError, read_captures, read_hardware
from schemas.hardware.cpulist import format_cpus
from schemas.hardware.importers import UnreadableCapture, import_captures
from schemas.hardware.model import Hardware

DATA = Path(__file__).parents[2] / "data/topology"
TITLES = ["CPU Affinity", "NUMA Affinity", "GPU NUMA ID"]


class Machine(NamedTuple):
    """What a matrix is written from."""

    names: list[str]
    kinds: dict[frozenset[str], str]
    cpus: list[str]
    nodes: list[int]
    """For each GPU."""
    legend: dict[str, str]


def machine(gpus: int, nics: int, nodes: int, prefix: str = "mlx5_") -> Machine:
    names = [f"GPU{n}" for n in range(gpus)] + [f"NIC{n}" for n in range(nics)]
    choices = itertools.cycle(["NV18", "PIX", "SYS", "NODE", "PXB", "PHB", "NV4"])
    kinds = {frozenset(pair): next(choices) for pair in itertools.combinations(names, 2)}
    near = [n * nodes // gpus for n in range(gpus)]
    cpus = [f"{n * 16}-{n * 16 + 15},{n * 16 + 128}-{n * 16 + 143}" for n in near]
    return Machine(names, kinds, cpus, near, {f"NIC{n}": f"{prefix}{n}" for n in range(nics)})


def rows(made: Machine) -> list[list[str]]:
    """The cells of the header and of each row, as nvidia-smi has them."""
    table = [["", *made.names, *TITLES]]
    for name in made.names:
        row = [" X " if a == name else made.kinds[frozenset((a, name))] for a in made.names]
        at = int(name[3:])
        table.append(
            [name, *row, *([made.cpus[at], str(made.nodes[at]), "", "N/A"] if name[0] == "G" else [])]
        )
    return table


def tabbed(made: Machine) -> str:
    legend = "".join(f"  {nic}: {name}\n" for nic, name in made.legend.items())
    text = "".join("\t".join(row) + "\n" for row in rows(made))
    return f"{text}\nLegend:\n\n  X    = Self\n  NV#  = bonded set of # NVLinks\n\nNIC Legend:\n\n{legend}"


def expanded(made: Machine) -> str:
    return tabbed(made).expandtabs(8)


def require_machine(found: Hardware, made: Machine) -> None:
    ids = {name: f"gpu{name[3:]}" if name[0] == "G" else made.legend[name] for name in made.names}
    told = {frozenset((each.a, each.b)): (each.kind, each.count) for each in found.links}
    meant = {
        frozenset(ids[end] for end in pair): ("NV", int(kind[2:])) if kind[:2] == "NV" else (kind, 1)
        for pair, kind in made.kinds.items()
    }
    assert told == meant
    assert [gpu.numa_node for gpu in found.gpus] == made.nodes
    cpus = {node.id: format_cpus(node.cpus) for node in found.numa_nodes}
    assert cpus == dict(zip(made.nodes, made.cpus, strict=True))
    assert [nic.id for nic in found.nics] == list(made.legend.values())


FORMS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "spaces": lambda text: text.expandtabs(8),
    "doubled tabs": lambda text: text.replace("\t", "\t\t"),
    "doubled tabs in rows": lambda text: re.sub(r"(?<=NV18)\t", "\t\t", text),
    "CRLF": lambda text: text.replace("\n", "\r\n"),
    "blank lines between": lambda text: text.replace("\n", "\r\r\n"),
    "an unindented header": str.lstrip,
    "unindented, spaces": lambda text: text.expandtabs(8).lstrip(),
    "quoted by mail": lambda text: "".join("> " + line for line in text.splitlines(keepends=True)),
    "quoted twice": lambda text: "".join("> > " + line for line in text.splitlines(keepends=True)),
    "a comment": lambda text: "".join("# " + line for line in text.splitlines(keepends=True)),
    "indented": lambda text: textwrap.indent(text, "    "),
    "colours": lambda text: text.replace("GPU0\tGPU1", "\x1b[4mGPU0\tGPU1\x1b[0m", 1),
    "prose before": lambda text: "The links of GPU0 are fine:\n\n" + text,
    "twice": lambda text: text + "\n" + text,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", [(8, 0, 2), (8, 10, 8), (4, 2, 4), (8, 40, 8)])
def test_a_matrix_says_the_same_in_each_form(form: str, size: tuple[int, int, int]) -> None:
    made = machine(*size)
    require_machine(import_captures([FORMS[form](tabbed(made)).encode()]), made)


@pytest.mark.parametrize("name", sorted(path.name for path in (DATA / "nvidia-smi-topo").glob("*.txt")))
def test_real_matrices_keep_each_cell(name: str) -> None:
    if name == "ORIGIN.txt":
        return
    text = (DATA / "nvidia-smi-topo" / name).read_text()
    found = import_captures([re.sub(r"\t", "\t\t", text).encode()])
    lines = [line.split() for line in re.sub(r"\x1b?\[[0-9;]*m", "", text).splitlines()]
    columns = [word for word in lines[0] if re.match(r"(GPU|NIC|mlx5_)[0-9]", word)]
    cells = {
        frozenset((words[0], column)): cell
        for words in lines[1 : len(columns) + 1]
        for column, cell in zip(columns, words[1:], strict=False)
        if cell not in ("X", "N/A")
    }
    assert len(found.links) == len(cells)
    counted = sorted(f"{one.kind}{one.count}" if one.kind == "NV" else one.kind for one in found.links)
    assert counted == sorted(cells.values())


def test_two_matrices_of_two_machines_are_refused_and_keep_their_names() -> None:
    first, second = machine(2, 2, 2), machine(2, 2, 2, "ibp")
    with pytest.raises(HardwareError) as caught:
        read_hardware("both.txt", (tabbed(first) + "\n" + tabbed(second)).encode())
    (problem,) = caught.value.problems
    assert "NIC1 is ibp1, not mlx5_1" in problem.message
    assert (problem.place.line, problem.hint) == (
        tabbed(first).count("\n") + 2,
        "save each machine in a file of its own",
    )
    other = first._replace(kinds={**first.kinds, frozenset(("GPU0", "GPU1")): "SYS"})
    with pytest.raises(UnreadableCapture, match="another machine"):
        import_captures([(tabbed(first) + tabbed(first._replace(cpus=["0-3", "4-7"]))).encode()])
    require_machine(import_captures([(tabbed(other) + tabbed(first)).encode()]), first)


@pytest.mark.parametrize(
    ("broken", "why", "place"),
    [
        ("\tGPU0\tGPU1\nGPU0\tX\tNV1\nGPU1\tNV2\tX\n", "GPU1 to GPU0 is NV2, but NV1", (3, 6)),
        ("\tGPU0\tGPU1\nGPU0\tNV1\tX\nGPU1\tX\tNV1\n", "no X below GPU0", (2, 6)),
        ("> \tGPU0\tGPU1\n> GPU0\tX\tFOO\n", "'FOO' is not a kind of link", (2, 10)),
        ("\tGPU0\tGPU1\nGPU0\tX\nGPU1\tNV1\tX\n", "1 cells for 2 devices", (2, 7)),
        ("\tGPU0\tCPU Affinity\nGPU0\tX\t0-3\t0\n", "'0' stands below no title", (2, 12)),
        ("\tGPU0\tGPU0\nGPU0\tX\tX\n", "names GPU0 twice", (1, 1)),
    ],
)  # fmt: skip
def test_a_matrix_that_contradicts_itself_is_refused_at_its_place(
    broken: str, why: str, place: tuple[int, int]
) -> None:
    with pytest.raises(UnreadableCapture, match=re.escape(why)) as caught:
        import_captures([broken.encode()])
    assert ((caught.value.line, caught.value.column), bool(caught.value.hint)) == (place, True)


@pytest.mark.parametrize("cut", range(1, 60))
def test_a_matrix_cut_anywhere_in_its_last_row_guesses_nothing(cut: int) -> None:
    made = machine(8, 0, 8)
    text = "".join("\t".join(row) + "\n" for row in rows(made))[:-cut]
    found = import_captures([text.encode()])
    meant = {
        frozenset(f"gpu{end[3:]}" for end in pair): ("NV", int(kind[2:])) if kind[:2] == "NV" else (kind, 1)
        for pair, kind in made.kinds.items()
    }
    assert {frozenset((each.a, each.b)): (each.kind, each.count) for each in found.links} == meant
    assert [gpu.numa_node for gpu in found.gpus][:7] == made.nodes[:7]
    assert found.gpus[7].numa_node in (made.nodes[7], None)
    for node in found.numa_nodes:
        assert format_cpus(node.cpus) in (made.cpus[made.nodes.index(node.id)], "")


def numactl(
    nodes: int, cores: int, width: int | None, *, parted: bool = False, present: int | None = None
) -> str:
    cpus = [[*range(n * cores, (n + 1) * cores), *range((nodes + n) * cores, (nodes + n + 1) * cores)]
            for n in range(nodes)]  # fmt: skip
    lines = [f"available: {nodes} nodes (0-{nodes - 1})"]
    for number, own in enumerate(cpus[:present]):
        line = f"node {number} cpus: " + " ".join(map(str, own))
        if width and parted:
            lines += [line[at : at + width] for at in range(0, len(line), width)]
        else:
            lines += textwrap.wrap(line, width) if width else [line]
        lines.append(f"node {number} size: {1000 + number} MB")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("width", [None, 40, 72, 78, 80, 100, 132])
@pytest.mark.parametrize("parted", [False, True])
@pytest.mark.parametrize(("nodes", "cores"), [(2, 48), (8, 16), (1, 8)])
def test_wrapped_lines_of_numactl_lose_no_cpu(
    nodes: int, cores: int, width: int | None, parted: bool
) -> None:
    text = numactl(nodes, cores, width, parted=parted)
    try:
        found = import_captures([text.encode()])
    except UnreadableCapture as error:
        assert parted and "wrapped" in str(error) and error.hint
        return
    assert [(node.cpus, node.memory >> 20) for node in found.numa_nodes] == [
        ((*range(n * cores, (n + 1) * cores), *range((nodes + n) * cores, (nodes + n + 1) * cores)), 1000 + n)
        for n in range(nodes)
    ]


def test_nodes_that_numactl_counts_and_does_not_list_are_unknown() -> None:
    found = import_captures([numactl(8, 16, None, present=4).encode()])
    assert len(found.numa_nodes) == 4
    assert any(words.startswith("NUMA nodes 4-7: numactl -H counts 8") for words in found.unknown)
    with pytest.raises(UnreadableCapture, match="2 nodes are said to be available"):
        import_captures([numactl(8, 16, None).replace("8 nodes (0-7)", "2 nodes (0-1)").encode()])


@pytest.mark.parametrize(
    ("text", "why", "place"),
    [
        ("available: 1 nodes (0)\nnode 0 cpus: 0 1 65536\n", "'65536' is not a CPU number", (2, 18)),
        ("node 0 cpus: 0 1 ²\n", "'²' is not a CPU number", (1, 18)),
        ("node 0 cpus: 0 " + "9" * 5000 + "\n", "is not a CPU number", (1, 16)),
        ("node 0 cpus: 0 1\nnode 1 cpus: 1 2\n", "CPU 1 is of NUMA node 0", (2, 1)),
        ("Architecture: x86_64\n  NUMA node0 CPU(s):   0-65536\n", "0-65536", (2, 24)),
        ("CPU NODE SOCKET\n0 0 0\n1 ² 0\n", "'²' is not a NUMA node", (3, 3)),
        ("CPU NODE SOCKET\n65536 0 0\n", "'65536' is not a CPU number", (2, 1)),
        ('{"lscpu": [\n {"field": "NUMA node0 CPU(s):", "data": "5-1"}]}', "'5-1'", (2, 12)),
        ("$ uname\nLinux\n$ lscpu\nArchitecture: x86_64\nNUMA node0 CPU(s): 5-1\n", "'5-1'", (5, 20)),
    ],
)  # fmt: skip
def test_what_is_no_cpu_is_refused_where_it_stands(text: str, why: str, place: tuple[int, int]) -> None:
    with pytest.raises(UnreadableCapture, match=re.escape(why)) as caught:
        import_captures([text.encode()])
    assert (caught.value.line, caught.value.column) == place


def test_the_last_cpu_that_is_read_is_read_again() -> None:
    found = import_captures([b"node 0 cpus: 0 65535\n"])
    saved = found.model_dump_json(by_alias=True, exclude_defaults=True)
    assert read_captures([("saved.json", saved.encode())]).numa_nodes[0].cpus == (0, 65535)


def sys_files(name: str) -> tuple[dict[str, str], dict[str, str]]:
    """Files and links of a snapshot below /sys/devices/system."""
    files, links = {}, {}
    with tarfile.open(DATA / "hwloc-linux" / f"{name}.tar.bz2") as archive:
        for entry in archive:
            path = entry.name.partition("/sys/devices/system/")[2]
            content = archive.extractfile(entry) if entry.isfile() else None
            if content is not None:
                files[path] = content.read().decode().strip()
            elif entry.issym():
                links[path] = entry.linkname
    return files, links


def test_cpus_of_a_node_that_is_offline_are_of_the_node_they_name() -> None:
    found = import_captures([(DATA / "hwloc-linux/offline-cpu0-node0.tar.bz2").read_bytes()])
    files, links = sys_files("offline-cpu0-node0")
    first, last = map(int, files["cpu/online"].split("-"))
    named = {cpu: next(int(path[-1]) for path in links if re.fullmatch(rf"cpu/cpu{cpu}/node\d", path))
             for cpu in range(first, last + 1)}  # fmt: skip
    assert len(named) == 17
    assert {cpu: node.id for node in found.numa_nodes for cpu in node.cpus} == named
    assert "memory of NUMA node 0" in found.unknown


def test_cpus_that_several_nodes_list_are_counted_once() -> None:
    found = import_captures([(DATA / "hwloc-linux/fakeheterocpunuma.tar.bz2").read_bytes()])
    files, _ = sys_files("fakeheterocpunuma")
    masks = {node: int(files[f"node/node{node}/cpumap"].split(",")[-1], 16) for node in range(6)}
    listed = {cpu: [n for n, mask in masks.items() if mask >> cpu & 1] for cpu in range(24)}
    meant = {cpu: min(nodes, key=lambda n: masks[n].bit_count()) for cpu, nodes in listed.items() if nodes}
    cpus = [(cpu, node.id) for node in found.numa_nodes for cpu in node.cpus]
    assert (len(cpus), dict(cpus)) == (len(meant), meant)
    assert any(words.startswith("NUMA node of CPUs 16-23: nodes 3-5 list them") for words in found.unknown)
    assert "NUMA node of CPUs 4-7: online, but of no node" in found.unknown


def snapshot(files: dict[str, str]) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for path, text in files.items():
            entry = tarfile.TarInfo(f"sys/devices/system/{path}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return file.getvalue()


def test_an_offline_cpu_that_its_node_lists_is_offline() -> None:
    found = import_captures([snapshot({
        "cpu/present": "0-3", "cpu/online": "1-3", "node/node0/cpulist": "0-1", "node/node1/cpulist": "2-3",
    })])  # fmt: skip
    assert ([node.cpus for node in found.numa_nodes], found.offline_cpus) == ([(1,), (2, 3)], (0,))


def hwloc(
    devices: str = "", machine_: str = 'cpuset="0x0f" complete_cpuset="0x0f" online_cpuset="0x0f"'
) -> bytes:
    units = "".join(f'<object type="PU" os_index="{n}" cpuset="{1 << n:#x}"/>' for n in range(4))
    return (
        f'<topology><object type="Machine" os_index="0" {machine_}>'
        f'<object type="NUMANode" os_index="0" cpuset="0x0f" local_memory="4096">{units}</object>'
        f'<object type="Bridge" bridge_type="0-1" bridge_pci="0000:[00-ff]">{devices}</object>'
        "</object></topology>"
    ).encode()


def pci(kind: str, ids: str, inside: str = "") -> str:
    type_ = f"{kind} [{ids}] [1002:0834] 00"
    return f'<object type="PCIDev" pci_busid="0000:13:00.0" pci_type="{type_}">{inside}</object>'


def test_amd_gpus_of_hwloc_1_are_read_or_named_as_doubtful() -> None:
    found = import_captures([hwloc(pci("0300", "1002:66a1"))])
    assert [(gpu.slot, gpu.pci) for gpu in found.gpus] == [("rocm", "0000:13:00.0")]
    console = import_captures([hwloc(pci("0300", "1002:515e"))])
    assert not console.gpus and not any("AMD device" in words for words in console.unknown)
    other = import_captures([hwloc(pci("0300", "1002:73bf"))])
    assert not other.gpus
    assert any("AMD device at 0000:13:00.0 (1002:73bf)" in words for words in other.unknown)


def test_infiniband_of_the_older_class_is_a_nic() -> None:
    device = '<object type="OSDev" name="qib0" osdev_type="3"/>'
    assert [nic.id for nic in import_captures([hwloc(pci("0c06", "1077:7322", device))]).nics] == ["qib0"]
    assert [nic.id for nic in import_captures([hwloc(pci("0c06", "1077:7322"))]).nics] == ["0000:13:00.0"]
    real = import_captures([(DATA / "hwloc-xml/24em64t-2n6c2t-pci.xml").read_bytes()])
    assert [(nic.id, nic.pci) for nic in real.nics] == [("mlx4_0", "0000:05:00.0")]


def test_cpus_that_are_online_and_not_shown_are_unknown() -> None:
    wider = 'cpuset="0x0f" complete_cpuset="0x1ff" online_cpuset="0xff"'
    found = import_captures([hwloc(machine_=wider)])
    assert (found.numa_nodes[0].cpus, found.offline_cpus) == ((0, 1, 2, 3), (8,))
    assert "CPUs 4-7: online, but hwloc was not shown them" in found.unknown


def smi_query(model: str, total: int, instances: list[tuple[int, int, int, int]]) -> bytes:
    """`nvidia-smi -q -x` of one GPU: MiB, and MiB, multiprocessors, copy engines, OFA of each instance."""
    devices = "".join(
        f"<mig_device><gpu_instance_id>{n}</gpu_instance_id><compute_instance_id>0</compute_instance_id>"
        f"<device_attributes><shared><multiprocessor_count>{processors}</multiprocessor_count>"
        f"<copy_engine_count>{engines}</copy_engine_count><ofa_count>{ofa}</ofa_count></shared>"
        f"</device_attributes><fb_memory_usage><total>{memory} MiB</total></fb_memory_usage></mig_device>"
        for n, (memory, processors, engines, ofa) in enumerate(instances)
    )
    return (
        f'<nvidia_smi_log><attached_gpus>1</attached_gpus><gpu id="00000000:01:00.0"><uuid>GPU-1</uuid>'
        f"<product_name>{model}</product_name><product_architecture>Hopper</product_architecture>"
        f"<mig_mode><current_mig>Enabled</current_mig></mig_mode><mig_devices>{devices}</mig_devices>"
        f"<fb_memory_usage><total>{total} MiB</total></fb_memory_usage></gpu></nvidia_smi_log>"
    ).encode()


MIG = {
    ("NVIDIA A100-SXM4-40GB", 40960): [
        (4864, 14, 1, 0, "1g.5gb"), (9856, 14, 1, 0, "1g.10gb"), (9856, 28, 2, 0, "2g.10gb"),
        (19968, 42, 3, 0, "3g.20gb"), (19968, 56, 4, 0, "4g.20gb"), (40192, 98, 7, 1, "7g.40gb"),
        (4864, 14, 1, 1, "1g.5gb+me")],
    ("NVIDIA A30", 24576): [
        (5952, 14, 1, 0, "1g.6gb"), (12032, 28, 2, 0, "2g.12gb"), (24192, 56, 4, 1, "4g.24gb")],
    ("NVIDIA H100 80GB HBM3", 81559): [
        (9984, 16, 1, 0, "1g.10gb"), (20096, 26, 1, 0, "1g.20gb"), (20096, 32, 2, 0, "2g.20gb"),
        (40448, 60, 3, 0, "3g.40gb"), (40448, 64, 4, 0, "4g.40gb"), (81153, 132, 8, 1, "7g.80gb")],
    ("NVIDIA H100 NVL", 95830): [
        (11264, 16, 1, 0, "1g.12gb"), (23552, 26, 1, 0, "1g.24gb"), (47616, 60, 3, 0, "3g.47gb")],
    ("NVIDIA H200", 143771): [
        (16896, 16, 1, 0, "1g.18gb"), (33280, 26, 1, 0, "1g.35gb"), (33280, 32, 2, 0, "2g.35gb"),
        (71424, 60, 3, 0, "3g.71gb"), (71424, 64, 4, 0, "4g.71gb"), (143771, 132, 8, 1, "7g.141gb")],
    ("NVIDIA H20", 97871): [(11264, 8, 1, 0, "1g.12gb"), (97280, 78, 8, 1, "7g.96gb")],
    ("NVIDIA B200", 183359): [(22016, 18, 2, 0, "1g.23gb"), (91000, 72, 8, 0, "4g.90gb")],
}  # fmt: skip


@pytest.mark.parametrize(("model", "total"), MIG)
def test_mig_profiles_are_those_of_the_gpu(model: str, total: int) -> None:
    known = MIG[model, total]
    (gpu,) = import_captures([smi_query(model, total, [each[:4] for each in known])]).gpus
    assert [device.profile for device in gpu.mig_devices] == [each[4] for each in known]


LISTED = b"""\
GPU 0: NVIDIA H20 (UUID: GPU-1)
  MIG 3g.48gb     Device  0: (UUID: MIG-a)
  MIG 2c.4g.48gb  Device  1: (UUID: MIG-b)
GPU 1: NVIDIA H20 (UUID: GPU-2)
"""


def test_mig_profiles_that_cannot_be_told_are_unknown_until_they_are_listed() -> None:
    query = smi_query("NVIDIA H20", 97871, [(48128, 33, 3, 0)])
    alone = import_captures([query])
    assert (alone.gpus[0].mig, alone.gpus[0].mig_devices) == ("enabled", ())
    assert "MIG instances of GPUs 0" in alone.unknown
    for order in ([query, LISTED], [LISTED, query]):
        both = import_captures(order)
        assert [device.profile for device in both.gpus[0].mig_devices] == ["3g.48gb", "2c.4g.48gb"]
        assert [gpu.id for gpu in both.gpus] == ["GPU-1", "GPU-2"]
        assert not any("MIG" in words for words in both.unknown)
    part = import_captures([smi_query("NVIDIA A100-SXM4-40GB", 40960, [(19968, 42, 4, 0)])])
    assert "MIG instances of GPUs 0" in part.unknown, "three slices of a 4g.20gb are no 3g.20gb"


def test_the_list_in_a_transcript_of_a_real_machine() -> None:
    text = (DATA / "nvidia-smi-captures/linux-x86_64__nvidia-h100-mig__590.48.01.txt").read_text()
    (gpu,) = import_captures([text.encode()]).gpus
    listed = re.findall(r"^  MIG (\S+) +Device", text, re.MULTILINE)
    assert [device.profile for device in gpu.mig_devices] == listed
    assert len(listed) == 4


NUMACTL = (
    "available: 2 nodes (0-1)\nnode 0 cpus: 0 1\nnode 0 size: 7 MB\nnode 1 cpus: 2 3\nnode 1 size: 8 MB\n"
)
TABLE = """\
CPU NODE SOCKET CORE ONLINE
  0    0      0    0 yes
  1    0      0    0 yes
  2    1      0    1 yes
"""


@pytest.mark.parametrize(
    "text",
    [
        NUMACTL + TABLE,
        TABLE + NUMACTL,
        f"\x1b[1muser@host\x1b[0m:~$ numactl -H\n{NUMACTL}user@host:~$ lscpu -e\n{TABLE}",
        "".join("> " + line for line in (NUMACTL + TABLE).splitlines(keepends=True)),
        "It says:\n\n" + "".join("# " + line for line in (TABLE + NUMACTL).splitlines(keepends=True)),
    ],
)
def test_outputs_behind_each_other_are_all_read(text: str) -> None:
    found = import_captures([text.encode()])
    assert [node.memory >> 20 for node in found.numa_nodes] == [7, 8]
    assert (0, 1) in found.siblings


@pytest.mark.parametrize(
    ("text", "why", "place"),
    [
        ("> Look:\n> > node 0 cpus: 0 x\n> > node 1 cpus: 1\n", "'x' is not a CPU number", (2, 20)),
        ("node 0 cpus: 0 1 40 4", "do not ascend", (1, 1)),
        (TABLE.replace("1 yes\n", "1\n"), "ends before its column ONLINE", (4, 21)),
        ("On-line CPU(s) list: 0-7\nNUMA node(s): 2\n", "no line 'NUMA node0 CPU(s):'", (1, 1)),
    ],
)  # fmt: skip
def test_what_was_lost_on_the_way_is_refused_where_it_is_missing(
    text: str, why: str, place: tuple[int, int]
) -> None:
    with pytest.raises(UnreadableCapture, match=re.escape(why)) as caught:
        import_captures([text.encode()])
    assert (caught.value.line, caught.value.column) == place


def test_a_row_of_cpus_that_was_cut_is_left_out() -> None:
    found = import_captures([(TABLE + "  3    1").encode()])
    assert [node.cpus for node in found.numa_nodes] == [(0, 1), (2,)]
