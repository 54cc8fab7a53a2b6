"""`nvidia-smi topo -m` (and `-mp`): how GPUs and NICs are connected, and which CPUs and NUMA node are near
each GPU."""

from __future__ import annotations

import re

from schemas.hardware.cpulist import format_cpus, parse_cpus
from schemas.hardware.importers.facts import Facts, LinkFacts, UnreadableCapture

ANSI = re.compile(r"\x1b?\[[0-9;]*m")
_TITLES = re.compile(r"CPU Affinity|NUMA Affinity|GPU NUMA ID")
_DEVICE = re.compile(r"(GPU\d{1,3}|NIC\d{1,3}|[a-z][\w.-]*)\Z")
_LEGEND = re.compile(r"\s*(NIC\d+):\s+(\S+)\s*\Z")
_COLUMN = re.compile(r"\w+\Z")
_FIRST_GPU = re.compile(r"GPU\d+\Z")
_CELL = re.compile(r"(X|NV(\d{1,2})|PIX|PXB|PHB|NODE|SYS|SOC|N/A)\Z")


def is_header(line: str) -> bool:
    """The line of column names: starts with space, and names a GPU before anything that is no name."""
    line = ANSI.sub("", line)
    if not line[:1].isspace():
        return False
    first = next((word for word in line.split() if _FIRST_GPU.match(word) or not _COLUMN.match(word)), "")
    return bool(_FIRST_GPU.match(first))


def read_smi_topo(text: str) -> Facts:
    """Raises UnreadableCapture when there is no matrix, or another one (`topo -p2p`)."""
    lines = [ANSI.sub("", line).rstrip() for line in text.splitlines()]
    start = next((at for at, line in enumerate(lines) if is_header(line)), None)
    if start is None:
        raise UnreadableCapture("no header line with GPU0 of nvidia-smi topo -m")
    columns = [name for name in _TITLES.sub(" ", lines[start]).split() if _DEVICE.match(name)]
    titles = _TITLES.findall(lines[start])
    names = {found[1]: found[2] for line in lines if (found := _LEGEND.match(line))}
    facts = Facts("nvidia-smi topo -m", siblings=None)
    facts.gpus = [
        {"id": f"gpu{int(name[3:])}", "index": int(name[3:]), "slot": "cuda", "vendor": "nvidia"}
        for name in columns
        if name.startswith("GPU")
    ]
    facts.nics = [{"id": names.get(name, name)} for name in columns if not name.startswith("GPU")]
    ids = {
        name: f"gpu{int(name[3:])}" if name.startswith("GPU") else names.get(name, name) for name in columns
    }
    affinity: dict[int, list[str | None]] = {}
    linked: set[frozenset[str]] = set()
    for at, line in enumerate(lines[start + 1 :], start=start + 2):
        name = line.split()[0] if line.split() else ""
        if name not in ids:
            if affinity or name:
                break
            continue
        tail = _read_row(facts, columns, ids, linked, name, line, at)
        affinity[int(name[3:]) if name.startswith("GPU") else -1] = tail
    affinity.pop(-1, None)
    if len(affinity) < len(facts.gpus):
        missing = format_cpus({gpu["index"] for gpu in facts.gpus} - affinity.keys())
        facts.notes.append(f"what is near GPUs {missing}: their rows are cut off")
    _add_affinity_nodes(facts, titles, affinity)
    return facts


def _read_row(
    facts: Facts,
    columns: list[str],
    ids: dict[str, str],
    linked: set[frozenset[str]],
    name: str,
    line: str,
    at: int,
) -> list[str | None]:
    """Adds the row's links, but for pairs that are `linked` already; gives what follows the matrix."""
    cells = [cell.strip() for cell in line.split("\t")][1:] if "\t" in line else line.split()[1:]
    for column, cell in zip(columns, cells, strict=False):
        found = _CELL.match(cell)
        if not found:
            if cell in ("OK", "CNS", "GNS", "TNS", "NS", "DR", "U"):
                raise UnreadableCapture(
                    "this is the matrix of topo -p2p; save the output of nvidia-smi topo -m", at
                )
            if cell and column != columns[-1]:
                raise UnreadableCapture(f"{cell!r} is not a kind of link of nvidia-smi topo -m", at)
            continue
        pair = frozenset((ids[name], ids[column]))
        if cell in ("X", "N/A") or column == name or pair in linked:
            continue
        linked.add(pair)
        kind = "NV" if found[2] else ("SYS" if cell == "SOC" else cell)
        facts.links.append(LinkFacts(ids[name], ids[column], kind, max(1, int(found[2] or 1))))
    return [cell if cell not in ("", "N/A") else None for cell in cells[len(columns) :]]


def _add_affinity_nodes(facts: Facts, titles: list[str], affinity: dict[int, list[str | None]]) -> None:
    """NUMA nodes from the affinity columns. Without a NUMA column nodes are counted in the order of their
    CPUs."""
    cpus = {
        gpu: _parse_cpus(tail[0]) if "CPU Affinity" in titles and tail else None
        for gpu, tail in affinity.items()
    }
    nodes = {gpu: _parse_nodes(tail) if "NUMA Affinity" in titles else () for gpu, tail in affinity.items()}
    if not any(nodes.values()):
        sets = sorted({found for found in cpus.values() if found}, key=min)
        nodes = {gpu: (sets.index(found),) if found else () for gpu, found in cpus.items()}
        if len(sets) > 1:
            facts.notes.append("numbers of the NUMA nodes: taken in the order of their CPUs")
    for gpu in facts.gpus or ():
        near, own = nodes.get(gpu["index"], ()), cpus.get(gpu["index"])
        gpu["numa_node"] = near[0] if near else None
        if near and own:
            facts.node(near[0]).cpus = own
        for other in near[1:]:
            facts.node(other)
        if len(near) > 1:
            facts.notes.append(f"which of NUMA nodes {format_cpus(near)} is nearest to GPU {gpu['index']}")
        memory_node = _memory_node(titles, affinity.get(gpu["index"], []))
        if memory_node is not None:
            facts.node(memory_node).kind, facts.node(memory_node).cpus = "gpu", ()
    _require_disjoint_nodes(facts)


def _require_disjoint_nodes(facts: Facts) -> None:
    """Nodes whose CPUs overlap: a job's own limits were captured, or a list of nodes shares them."""
    seen: dict[int, int] = {}
    for number, node in sorted(facts.nodes.items()):
        doubled = [cpu for cpu in node.cpus or () if cpu in seen]
        if doubled:
            facts.notes.append(
                f"CPUs {format_cpus(doubled)}: said to be of NUMA nodes {seen[doubled[0]]} and {number}"
            )
            node.cpus = tuple(cpu for cpu in node.cpus or () if cpu not in seen)
        seen.update(dict.fromkeys(node.cpus or (), number))


def _parse_cpus(text: str | None) -> tuple[int, ...] | None:
    try:
        return parse_cpus(text) or None if text else None
    except ValueError:
        return None


def _parse_nodes(tail: list[str | None]) -> tuple[int, ...]:
    found = _parse_cpus(tail[1]) if len(tail) > 1 else None
    return found or ()


def _memory_node(titles: list[str], tail: list[str | None]) -> int | None:
    """The last column: the NUMA node that is the GPU's own memory."""
    last = tail[-1] if "GPU NUMA ID" in titles and len(tail) > 2 else None
    return int(last) if last and re.fullmatch(r"\d{1,4}", last) else None
