"""`lscpu` (plain, `-e`, `-p`, `-J`)."""

from __future__ import annotations

import json
import re
from typing import Any

from schemas.hardware.cpulist import MAX_CPU, format_cpus, parse_cpus
from schemas.hardware.importers.facts import Facts, UnreadableCapture

_FIELD = re.compile(
    r"\s*(Architecture|NUMA node\(s\)|NUMA node([0-9]{1,4}) CPU\(s\)|On-line CPU\(s\) list"
    r"|Off-line CPU\(s\) list|Thread\(s\) per core):[ \t]*(.*?)\s*\Z"
)


def read_lscpu(text: str) -> Facts:
    """`lscpu`: CPUs of the NUMA nodes; the cores' threads only when every core has one."""
    facts = Facts("lscpu", all_nodes=True, offline=())
    online: tuple[int, ...] | None = None
    counted: int | None = None
    owners: dict[int, int] = {}
    values: dict[str, str] = {}
    for at, line in enumerate(text.splitlines(), start=1):
        found = _FIELD.match(line)
        if found is None or values.get(found[1]) == found[3]:
            continue
        name, value, column = found[1], found[3], found.start(3) + 1
        values[name] = value
        if name == "Architecture":
            facts.architecture = value.split()[0] if value else None
        elif name.startswith("On-line"):
            online = _parse_cpus(value, at, column)
        elif name.startswith("Off-line"):
            facts.offline = _parse_cpus(value, at, column)
        elif name == "NUMA node(s)":
            counted = int(value) if re.fullmatch("[0-9]{1,4}", value) else None
        elif name.startswith("Thread"):
            facts.siblings = () if value == "1" else None
        else:
            _add_node(facts, owners, int(found[2]), _parse_cpus(value, at, column), (at, column))
    if facts.nodes and counted is not None and counted > len(facts.nodes):
        facts.all_nodes = False
        facts.notes.append(
            f"further NUMA nodes: lscpu counts {counted}, {len(facts.nodes)} are in the capture"
        )
    if not facts.nodes and online and text[-1:] in "\r\n" and (counted or 1) == 1:
        facts.node(0).cpus = online
        if counted is None:
            facts.notes.append("NUMA nodes: lscpu names none, all CPUs are taken to be of one")
    if not facts.nodes:
        raise UnreadableCapture(
            "no line 'NUMA node0 CPU(s):', or a whole one 'On-line CPU(s) list:' (capture it with LC_ALL=C)"
        )
    homeless = set(online or ()) - {cpu for node in facts.nodes.values() for cpu in node.cpus or ()}
    if homeless:
        facts.notes.append(f"NUMA node of CPUs {format_cpus(homeless)}: lscpu shows them online, of no node")
    return facts


def _add_node(
    facts: Facts, owners: dict[int, int], number: int, cpus: tuple[int, ...], place: tuple[int, int]
) -> None:
    for cpu in cpus:
        _require_one_node(owners, cpu, number, place)
    known = facts.node(number).cpus
    if known is not None and known != cpus:
        raise UnreadableCapture(
            f"NUMA node {number} has other CPUs in a line above",
            *place,
            hint="save each machine in a file of its own",
        )
    facts.node(number).cpus = cpus


def _require_one_node(owners: dict[int, int], cpu: int, number: int, place: tuple[int, int]) -> None:
    if owners.setdefault(cpu, number) != number:
        raise UnreadableCapture(
            f"CPU {cpu} is of NUMA node {owners[cpu]}, and of node {number} here",
            *place,
            hint="save each machine in a file of its own",
        )


def _parse_cpus(text: str, line: int, column: int) -> tuple[int, ...]:
    try:
        return () if text in ("", "-") else parse_cpus(text)
    except ValueError as error:
        raise UnreadableCapture(str(error), line, column, "a list such as 0-3,8") from None


def read_lscpu_json(data: bytes) -> Facts:
    """`lscpu -J`."""
    lines: list[str] = []
    names: list[str] = []

    def walk(entries: Any) -> None:
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, dict):
                names.append(str(entry.get("field")))
                lines.append(f"{entry.get('field')} {entry.get('data')}".replace("\n", " "))
                walk(entry.get("children"))

    try:
        walk(json.loads(data)["lscpu"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UnreadableCapture(
            "not the JSON of lscpu -J", hint="save it anew: lscpu -J > cpu.json"
        ) from None
    try:
        return read_lscpu("\n".join(lines))
    except UnreadableCapture as error:
        text = data.decode("utf-8", "replace")
        at = max(0, text.find(json.dumps(names[error.line - 1])))
        line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
        raise UnreadableCapture(str(error), line, column, error.hint) from None


def read_lscpu_table(text: str) -> Facts:
    """`lscpu -e` (columns by name) or `lscpu -p` (comma-separated, names in the last comment)."""
    facts = Facts("lscpu -e", all_nodes=True)
    names: list[str] = []
    nodes: dict[int, set[int]] = {}
    cores: dict[str, set[int]] = {}
    owners: dict[int, int] = {}
    offline: set[int] = set()
    lines = text.splitlines()
    for at, line in enumerate(lines, start=1):
        cells = [cell.strip() for cell in line.lstrip("# ").split(",")] if "," in line else line.split()
        if cells and cells[0].upper() == "CPU" and len(cells) > 1:
            names = [cell.upper() for cell in cells]
        elif names and cells and re.match("[0-9]", cells[0]):
            if not re.fullmatch(r"[0-9]{1,9}", cells[0]) or int(cells[0]) > MAX_CPU:
                raise UnreadableCapture(
                    f"{cells[0][:40]!r} is not a CPU number up to {MAX_CPU}", at, line.index(cells[0]) + 1
                )
            row = dict(zip(names, cells, strict=False))
            if not _is_whole(row, names, at, line, last=at == len(lines) and text[-1:] not in "\r\n"):
                continue
            if row.get("ONLINE", "yes").lower() in ("no", "n"):
                offline.add(int(cells[0]))
            else:
                cpu, node = int(cells[0]), _node_of_row(row, at, line)
                _require_one_node(owners, cpu, node, (at, 1))
                nodes.setdefault(node, set()).add(cpu)
                if row.get("CORE", "-") not in ("-", ""):
                    cores.setdefault(row["CORE"], set()).add(cpu)
    for number, cpus in nodes.items():
        facts.node(number).cpus = tuple(sorted(cpus))
    if not facts.nodes:
        raise UnreadableCapture("no row of a CPU below the header of lscpu -e")
    facts.offline = tuple(sorted(offline)) if "ONLINE" in names else None
    if "CORE" in names:
        facts.siblings = tuple(
            sorted(tuple(sorted(threads)) for threads in cores.values() if len(threads) > 1)
        )
    return facts


def _is_whole(row: dict[str, str], names: list[str], at: int, line: str, *, last: bool) -> bool:
    """Whether a row has all that is read of it; not the `last` one of a capture that was cut in it. Raises
    UnreadableCapture for others."""
    lacks = [name for name in ("NODE", "CORE", "ONLINE") if name in names and name not in row]
    if lacks and not last:
        raise UnreadableCapture(
            f"this row ends before its column {lacks[0]}",
            at,
            len(line) + 1,
            "save it anew: lscpu -e > cpus.txt",
        )
    return not lacks


def _node_of_row(row: dict[str, str], at: int, line: str) -> int:
    node = row.get("NODE", "0") or "0"
    if not re.fullmatch(r"[0-9]{1,4}|-", node):
        found = re.search(rf"(?<![^\s,]){re.escape(node)}(?![^\s,])", line)
        column = found.start() + 1 if found else 1
        raise UnreadableCapture(f"{node[:40]!r} is not a NUMA node", at, column, "a number, or -")
    return 0 if node == "-" else int(node)
