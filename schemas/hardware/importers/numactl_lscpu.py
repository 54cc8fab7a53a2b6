"""`numactl -H` and `read_lscpu` (plain, `-e`, `-p`, `-J`)."""

from __future__ import annotations

import json
import re
from typing import Any

from schemas.hardware.cpulist import parse_cpus
from schemas.hardware.importers.facts import Facts, UnreadableCapture

_ARCHITECTURE = re.compile(r"^Architecture:\s+(\S+)", re.MULTILINE)
_HIGHEST_NODE = 4095


def read_numactl(text: str) -> Facts:
    """`numactl --hardware`: nodes, CPUs, memory, distances."""
    facts = Facts("numactl -H", all_nodes=True)
    rows: list[tuple[int, list[int]]] = []
    columns: list[int] = []
    for at, line in enumerate(text.splitlines(), start=1):
        line = line.strip()
        if found := re.match(r"node (\d{1,4}) cpus:((?:\s+\d{1,5})*)$", line):
            facts.node(_parse_node(found[1], at)).cpus = tuple(sorted({int(cpu) for cpu in found[2].split()}))
        elif found := re.match(r"node (\d{1,4}) size:\s+(\d{1,12}) MB", line):
            facts.node(_parse_node(found[1], at)).memory = int(found[2]) << 20
        elif found := re.match(r"node((?:\s+\d{1,4})+)$", line):
            columns = [int(number) for number in found[1].split()]
        elif found := re.match(r"(\d{1,4}):((?:\s+\d{1,5})+)$", line):
            rows.append((int(found[1]), [int(value) for value in found[2].split()]))
    if not facts.nodes:
        raise UnreadableCapture("no line 'node N cpus: …' of numactl -H")
    for number, values in rows:
        if len(values) == len(columns) and number in facts.nodes:
            facts.node(number).distances = {
                other: value for other, value in zip(columns, values, strict=True) if other != number
            }
    if len(facts.nodes) > 1 and len(rows) < len(facts.nodes):
        facts.notes.append("NUMA distances of some nodes: the capture of numactl -H ends early")
    return facts


def _parse_node(text: str, line: int) -> int:
    if int(text) > _HIGHEST_NODE:
        raise UnreadableCapture(f"NUMA node {text} is out of range", line)
    return int(text)


def read_lscpu(text: str) -> Facts:
    """`read_lscpu`: CPUs of the NUMA nodes; the cores' threads only when every core has one."""
    facts = Facts("lscpu", all_nodes=True)
    facts.architecture = found[1] if (found := _ARCHITECTURE.search(text)) else None
    for found in re.finditer(r"^[^\S\n]*NUMA node(\d{1,4}) CPU\(s\):[ \t]*(.*)$", text, re.MULTILINE):
        facts.node(int(found[1])).cpus = _parse_cpus(found[2])
    online = re.search(r"^[^\S\n]*On-line CPU\(s\) list:\s+(\S+)", text, re.MULTILINE)
    if not facts.nodes and online:
        facts.node(0).cpus = _parse_cpus(online[1])
    if not facts.nodes:
        raise UnreadableCapture(
            "no line 'NUMA node0 CPU(s):' or 'On-line CPU(s) list:' (capture it with LC_ALL=C)"
        )
    offline = re.search(r"^[^\S\n]*Off-line CPU\(s\) list:\s+(\S+)", text, re.MULTILINE)
    facts.offline = _parse_cpus(offline[1]) if offline else ()
    if re.search(r"^[^\S\n]*Thread\(s\) per core:\s+1\s*$", text, re.MULTILINE):
        facts.siblings = ()
    return facts


def _parse_cpus(text: str) -> tuple[int, ...]:
    text = text.strip()
    try:
        return () if text in ("", "-") else parse_cpus(text)
    except ValueError as error:
        raise UnreadableCapture(str(error)) from None


def read_lscpu_json(data: bytes) -> Facts:
    """`lscpu -J`."""
    lines: list[str] = []

    def walk(entries: Any) -> None:
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, dict):
                lines.append(f"{entry.get('field')} {entry.get('data')}")
                walk(entry.get("children"))

    try:
        walk(json.loads(data)["lscpu"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UnreadableCapture("not the JSON of lscpu -J") from None
    return read_lscpu("\n".join(lines))


def read_lscpu_table(text: str) -> Facts:
    """`lscpu -e` (columns by name) or `lscpu -p` (comma-separated, names in the last comment)."""
    facts = Facts("lscpu -e", all_nodes=True)
    names: list[str] = []
    nodes: dict[int, list[int]] = {}
    cores: dict[str, list[int]] = {}
    offline: list[int] = []
    for at, line in enumerate(text.splitlines(), start=1):
        cells = [cell.strip() for cell in line.lstrip("# ").split(",")] if "," in line else line.split()
        if cells and cells[0].upper() == "CPU" and len(cells) > 1:
            names = [cell.upper() for cell in cells]
        elif names and cells and re.fullmatch(r"\d{1,5}", cells[0]):
            row = dict(zip(names, cells, strict=False))
            if row.get("ONLINE", "yes").lower() in ("no", "n"):
                offline.append(int(cells[0]))
            else:
                _read_table_row(nodes, cores, row, at)
    for number, cpus in nodes.items():
        facts.node(number).cpus = tuple(cpus)
    if not facts.nodes:
        raise UnreadableCapture("no row of a CPU below the header of lscpu -e")
    facts.offline = tuple(offline) if "ONLINE" in names else None
    if "CORE" in names:
        facts.siblings = tuple(sorted(tuple(threads) for threads in cores.values() if len(threads) > 1))
    return facts


def _read_table_row(
    nodes: dict[int, list[int]], cores: dict[str, list[int]], row: dict[str, str], line: int
) -> None:
    cpu, node = int(row["CPU"]), row.get("NODE", "0") or "0"
    if not re.fullmatch(r"\d{1,4}|-", node):
        raise UnreadableCapture(f"{node!r} is not a NUMA node", line)
    nodes.setdefault(0 if node == "-" else int(node), []).append(cpu)
    if row.get("CORE", "-") not in ("-", ""):
        cores.setdefault(row["CORE"], []).append(cpu)
