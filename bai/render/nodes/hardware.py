"""A machine in words: what a capture was understood to say, and what it does not tell."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.table import Table as Grid
from rich.text import Text

from bai.render.humanize import clean, plural, size
from bai.render.nodes.picture import cores_of, count_cores
from bai.render.printout import Table
from schemas.hardware.cpuset import format_cpus

if TYPE_CHECKING:
    from schemas.hardware.model import Gpu, Hardware, Link, Nic, NumaNode

DIRECT = ("NV", "XGMI")
PER_TABLE = 8


def render_hardware(hardware: Hardware, title: str) -> Iterator[Text | Grid]:
    """A heading, tables of NUMA nodes, GPUs, NICs and links, and a line for each thing that is unknown."""
    yield Text(clean(title), "bold").append(f": {hardware_summary(hardware)}", "not bold")
    for table in hardware_tables(hardware):
        yield from _section(table)
    if hardware.unknown:
        yield Text("")
        yield from (Text(f"  unknown: {clean(what)}", "yellow") for what in hardware.unknown)


def hardware_tables(hardware: Hardware) -> Iterator[Table]:
    """NUMA nodes, GPUs, NICs, and how these are linked."""
    yield _numa_table(hardware)
    if hardware.gpus:
        yield _gpu_table(hardware)
    if hardware.nics:
        yield _nic_table(hardware)
    if len(hardware.gpus) > 1 and hardware.links:
        yield from _link_tables(hardware)


def hardware_summary(hardware: Hardware) -> str:
    """On one line."""
    cores = count_cores(hardware)
    threads = sum(len(numa.cpus) for numa in hardware.numa_nodes)
    name = f"{clean(hardware.hostname)}, " if hardware.hostname else ""
    parts = [plural(len(hardware.numa_nodes), "NUMA node"), f"{plural(cores, 'core')} ({threads} CPUs)"]
    parts += [plural(len(hardware.gpus), "GPU"), plural(len(hardware.nics), "NIC")]
    parts += [plural(len(hardware.disks), "drive")] if hardware.disks else []
    return f"{name}{clean(hardware.architecture)}, {', '.join(parts)}"


def _section(table: Table) -> Iterator[Text | Grid]:
    yield Text("")
    grid = Grid(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False, show_edge=False)
    grid.add_column("", no_wrap=True)
    for column in table.columns[1:]:
        grid.add_column(column, overflow="fold")
    for name, *cells in table.rows:
        grid.add_row(f"  {name}", *cells)
    yield grid


def _numa_table(hardware: Hardware) -> Table:
    ids = [numa.id for numa in hardware.numa_nodes]
    rows = []
    for numa in hardware.numa_nodes:
        cpus = format_cpus(numa.cpus).replace(",", ", ") or "-"
        memory = size(numa.memory) if numa.memory else "-"
        cores = str(len(cores_of(numa, hardware)))
        rows.append((f"numa{numa.id}", cores, cpus, memory, numa.kind, _distances(numa, ids)))
    return Table(("", "cores", "CPUs", "memory", "kind", f"distance to {format_cpus(ids)}"), tuple(rows))


def _distances(numa: NumaNode, ids: list[int]) -> str:
    if not numa.distances:
        return "-"
    return " ".join(str(10 if to == numa.id else numa.distances.get(to, "-")) for to in ids)


def _gpu_table(hardware: Hardware) -> Table:
    rows = tuple(
        (
            f"gpu {gpu.index}",
            clean(gpu.model) or "-",
            gpu.pci or "-",
            _numa_node_text(gpu),
            size(gpu.memory) if gpu.memory else "-",
            clean(gpu.id),
        )
        for gpu in hardware.gpus
    )
    return Table(("", "model", "PCI", "NUMA", "memory", "id"), rows)


def _nic_table(hardware: Hardware) -> Table:
    rows = []
    for nic in hardware.nics:
        speed = f"{nic.speed_mbps // 1000} Gbit/s" if nic.speed_mbps else "-"
        kind = nic.link_layer or ("RDMA" if nic.rdma else "-")
        rows.append(
            (
                clean(nic.id),
                nic.pci or "-",
                _numa_node_text(nic),
                clean(nic.interface or "-"),
                kind,
                speed,
            )
        )
    return Table(("", "PCI", "NUMA", "interface", "kind", "speed"), tuple(rows))


def _numa_node_text(device: Gpu | Nic) -> str:
    return "-" if device.numa_node is None else str(device.numa_node)


def _link_tables(hardware: Hardware) -> Iterator[Table]:
    """The matrix of `nvidia-smi topo -m`, in parts that fit beside each other on a page."""
    kinds = {frozenset((link.a, link.b)): _link_text(link) for link in hardware.links}
    gpus = [(gpu.id, f"gpu {gpu.index}") for gpu in hardware.gpus]
    ends = gpus + [(nic.id, clean(nic.id)) for nic in hardware.nics]
    for at in range(0, len(ends), PER_TABLE):
        part = ends[at : at + PER_TABLE]
        rows = []
        for row, name in gpus:
            cells = ("x" if row == column else kinds.get(frozenset((row, column)), "-") for column, _ in part)
            rows.append((name, *cells))
        yield Table(("", *(name for _, name in part)), tuple(rows))


def _link_text(link: Link) -> str:
    return f"{link.kind}{link.count}" if link.kind in DIRECT else link.kind
