"""A machine in words: what a capture was understood to say, and what it does not tell."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from bai.render.humanize import clean, plural, size
from bai.render.nodes.picture import cores_of
from schemas.hardware.cpuset import format_cpus

if TYPE_CHECKING:
    from schemas.hardware.model import Gpu, Hardware, Link, Nic, NumaNode

DIRECT = ("NV", "XGMI")
PER_TABLE = 8


def render_hardware(hardware: Hardware, title: str) -> Iterator[Text | Table]:
    """A heading, tables of NUMA nodes, GPUs, NICs and links, and a line for each thing that is unknown."""
    yield Text(clean(title), "bold").append(f": {hardware_summary(hardware)}", "not bold")
    yield from _section(_numa_table(hardware))
    if hardware.gpus:
        yield from _section(_gpu_table(hardware))
    if hardware.nics:
        yield from _section(_nic_table(hardware))
    if len(hardware.gpus) > 1 and hardware.links:
        for table in _link_tables(hardware):
            yield from _section(table)
    if hardware.unknown:
        yield Text("")
        yield from (Text(f"  unknown: {clean(what)}", "yellow") for what in hardware.unknown)


def hardware_summary(hardware: Hardware) -> str:
    """On one line."""
    cores = sum(len(cores_of(numa, hardware)) for numa in hardware.numa_nodes)
    threads = sum(len(numa.cpus) for numa in hardware.numa_nodes)
    name = f"{clean(hardware.hostname)}, " if hardware.hostname else ""
    parts = [plural(len(hardware.numa_nodes), "NUMA node"), f"{plural(cores, 'core')} ({threads} CPUs)"]
    parts += [plural(len(hardware.gpus), "GPU"), plural(len(hardware.nics), "NIC")]
    parts += [plural(len(hardware.disks), "drive")] if hardware.disks else []
    return f"{name}{clean(hardware.architecture)}, {', '.join(parts)}"


def _section(table: Table) -> Iterator[Text | Table]:
    yield Text("")
    yield table


def _table(*columns: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False, show_edge=False)
    table.add_column("", no_wrap=True)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _numa_table(hardware: Hardware) -> Table:
    ids = [numa.id for numa in hardware.numa_nodes]
    table = _table("cores", "CPUs", "memory", "kind", f"distance to {format_cpus(ids)}")
    for numa in hardware.numa_nodes:
        cpus = format_cpus(numa.cpus).replace(",", ", ") or "-"
        memory = size(numa.memory) if numa.memory else "-"
        cores = str(len(cores_of(numa, hardware)))
        table.add_row(f"  numa{numa.id}", cores, cpus, memory, numa.kind, _distances(numa, ids))
    return table


def _distances(numa: NumaNode, ids: list[int]) -> str:
    if not numa.distances:
        return "-"
    return " ".join(str(10 if to == numa.id else numa.distances.get(to, "-")) for to in ids)


def _gpu_table(hardware: Hardware) -> Table:
    table = _table("model", "PCI", "NUMA", "memory", "id")
    for gpu in hardware.gpus:
        memory = size(gpu.memory) if gpu.memory else "-"
        table.add_row(
            f"  gpu {gpu.index}",
            clean(gpu.model) or "-",
            gpu.pci or "-",
            _numa_node_text(gpu),
            memory,
            clean(gpu.id),
        )
    return table


def _nic_table(hardware: Hardware) -> Table:
    table = _table("PCI", "NUMA", "interface", "kind", "speed")
    for nic in hardware.nics:
        speed = f"{nic.speed_mbps // 1000} Gbit/s" if nic.speed_mbps else "-"
        kind = nic.link_layer or ("RDMA" if nic.rdma else "-")
        table.add_row(
            f"  {clean(nic.id)}",
            nic.pci or "-",
            _numa_node_text(nic),
            clean(nic.interface or "-"),
            kind,
            speed,
        )
    return table


def _numa_node_text(device: Gpu | Nic) -> str:
    return "-" if device.numa_node is None else str(device.numa_node)


def _link_tables(hardware: Hardware) -> Iterator[Table]:
    """The matrix of `nvidia-smi topo -m`, in parts that fit beside each other on a page."""
    kinds = {frozenset((link.a, link.b)): _link_text(link) for link in hardware.links}
    gpus = [(gpu.id, f"gpu {gpu.index}") for gpu in hardware.gpus]
    ends = gpus + [(nic.id, clean(nic.id)) for nic in hardware.nics]
    for at in range(0, len(ends), PER_TABLE):
        part = ends[at : at + PER_TABLE]
        table = _table(*(name for _, name in part))
        for row, name in gpus:
            cells = ("x" if row == column else kinds.get(frozenset((row, column)), "-") for column, _ in part)
            table.add_row(f"  {name}", *cells)
        yield table


def _link_text(link: Link) -> str:
    return f"{link.kind}{link.count}" if link.kind in DIRECT else link.kind
