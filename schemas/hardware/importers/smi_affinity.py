"""What stands behind the matrix of `nvidia-smi topo -m`: CPUs and NUMA nodes near each GPU."""

from __future__ import annotations

import re

from schemas.hardware.cpulist import format_cpus, parse_cpus
from schemas.hardware.importers.facts import Facts, UnreadableCapture

TITLES = re.compile(r"CPU Affinity|NUMA Affinity|GPU NUMA ID")


def read_tail(header: str, line: str, start: int, place: tuple[int, int]) -> list[str | None] | None:
    """The cells of a row from `start` on, one for each title of the header; None where it cannot be told
    whose they are. `place`: the line, and what stood before it there."""
    titles = list(TITLES.finditer(header))
    words = list(re.finditer(r"\S+", line[start:]))
    if titles and TITLES.sub(" ", header[titles[0].start() :]).split():
        return None  # a title that is not known
    if len(words) > len(titles):
        extra = words[len(titles)]
        raise UnreadableCapture(
            f"{extra[0]!r} stands below no title of the header",
            place[0],
            place[1] + start + extra.start() + 1,
            "save it anew: nvidia-smi topo -m > topo.txt",
        )
    if len(words) == len(titles):
        return [_value(word[0]) for word in words]
    if not words:
        return [None] * len(titles)
    cells = [cell.strip() for cell in line[start:].split("\t")[1:]]
    if len(titles) == 3 and len(cells) == 4 and not cells[2]:
        del cells[2]  # nvidia-smi itself writes two tabs before the last column
    if len(cells) == len(titles):
        return [_value(cell) for cell in cells]
    below = {title.start(): at for at, title in enumerate(titles)}
    places = [below.get(start + word.start()) for word in words]
    if "\t" in line or None in places:
        return None
    found = dict(zip(places, words, strict=True))
    return [_value(found[at][0]) if at in found else None for at in range(len(titles))]


def _value(cell: str) -> str | None:
    return cell if cell not in ("", "N/A") else None


def add_affinity_nodes(facts: Facts, titles: list[str], tails: dict[int, list[str | None]]) -> None:
    """NUMA nodes from the affinity columns. Without a NUMA column nodes are counted in the order of their
    CPUs."""
    cpus = {gpu: _parse_cpus(facts, gpu, _cell(titles, tail, "CPU Affinity")) for gpu, tail in tails.items()}
    nodes = {
        gpu: _parse_cpus(facts, gpu, _cell(titles, tail, "NUMA Affinity")) or ()
        for gpu, tail in tails.items()
    }
    if not any(nodes.values()):
        sets = sorted({found for found in cpus.values() if found}, key=min)
        nodes = {gpu: (sets.index(found),) if found else () for gpu, found in cpus.items()}
        if len(sets) > 1:
            facts.notes.append("numbers of the NUMA nodes: taken in the order of their CPUs")
    for gpu in facts.gpus or ():
        near, own = nodes.get(gpu["index"], ()), cpus.get(gpu["index"])
        gpu["numa_node"] = near[0] if near else None
        if near and own:
            _add_cpus(facts, near[0], own)
        for other in near[1:]:
            facts.node(other)
        if len(near) > 1:
            facts.notes.append(f"which of NUMA nodes {format_cpus(near)} is nearest to GPU {gpu['index']}")
        memory_node = _cell(titles, tails.get(gpu["index"], []), "GPU NUMA ID")
        if memory_node is not None and re.fullmatch(r"[0-9]{1,4}", memory_node):
            facts.node(int(memory_node)).kind, facts.node(int(memory_node)).cpus = "gpu", ()
    _require_disjoint_nodes(facts)


def _add_cpus(facts: Facts, number: int, cpus: tuple[int, ...]) -> None:
    node = facts.node(number)
    if node.cpus and node.cpus != cpus:
        facts.notes.append(
            f"CPUs of NUMA node {number}: {format_cpus(node.cpus)} near one GPU of it, "
            f"{format_cpus(cpus)} near another"
        )
        cpus = tuple(sorted({*node.cpus, *cpus}))
    node.cpus = cpus


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


def _cell(titles: list[str], tail: list[str | None], title: str) -> str | None:
    at = titles.index(title) if title in titles else len(tail)
    return tail[at] if at < len(tail) else None


def _parse_cpus(facts: Facts, gpu: int, text: str | None) -> tuple[int, ...] | None:
    try:
        return parse_cpus(text) or None if text else None
    except ValueError as error:
        facts.notes.append(f"what is near GPU {gpu}: {error}")
        return None
