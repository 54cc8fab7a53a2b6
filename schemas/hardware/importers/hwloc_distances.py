"""Distances in hwloc's XML: NUMA latencies, and the bandwidth matrices that show NVLink and XGMI."""

from __future__ import annotations

import re
from typing import NamedTuple
from xml.etree.ElementTree import Element

from schemas.hardware.importers.facts import Facts
from schemas.hardware.importers.safe_xml import parse_number

_LATENCY = 4
_MOST = 4096


class Matrix(NamedTuple):
    """Values by row and column; `objects` as hwloc names them (`0` by OS index, `OSDev:802` by serial
    number)."""

    name: str
    objects: list[str]
    values: list[int]

    def at(self, row: int, column: int) -> int:
        return self.values[row * len(self.objects) + column]


def matrices(root: Element) -> list[Matrix]:
    """All complete `distances2` and `distances2hetero` of a topology."""
    found = []
    for element in [*root.findall("distances2"), *root.findall("distances2hetero")]:
        objects = _split_values(element, "indexes")
        values = [
            int(word) for word in _split_values(element, "u64values") if re.fullmatch(r"[0-9]{1,18}", word)
        ]
        kind = parse_number(element.get("kind")) or 0
        name = element.get("name") or (
            "NUMALatency" if element.get("type") == "NUMANode" and kind & _LATENCY else ""
        )
        if 0 < len(objects) <= _MOST and len(values) == len(objects) ** 2:
            found.append(Matrix(name, objects, values))
    return found


def _split_values(element: Element, tag: str) -> list[str]:
    return [word for part in element.findall(tag) for word in (part.text or "").split()]


def add_distances(facts: Facts, root: Element, order: list[int]) -> None:
    """NUMA distances of version 2 and 3 (by OS index), else of version 1 (in the order of the nodes,
    relative to a base)."""
    for matrix in matrices(root):
        numbers = [int(name) for name in matrix.objects if re.fullmatch("[0-9]{1,6}", name)]
        if matrix.name != "NUMALatency" or len(numbers) != len(matrix.objects):
            continue
        for row, node in enumerate(numbers):
            if node in facts.nodes:
                facts.node(node).distances = {
                    other: matrix.at(row, at) for at, other in enumerate(numbers) if other != node
                }
        return
    _add_version_1_distances(facts, root, order)


def _add_version_1_distances(facts: Facts, root: Element, order: list[int]) -> None:
    for element in root.iter("distances"):
        values = [
            _relative_distance(latency.get("value"), element.get("latency_base"))
            for latency in element.findall("latency")
        ]
        if not order or len(values) != len(order) ** 2 or None in values:
            continue
        for row, node in enumerate(order):
            line = values[row * len(order) : (row + 1) * len(order)]
            facts.node(node).distances = {
                other: int(d or 0) for other, d in zip(order, line, strict=True) if other != node
            }
        return


def _relative_distance(value: str | None, base: str | None) -> int | None:
    try:
        found = round(float(value or "x") * float(base or "1"))
    except (ValueError, OverflowError):
        return None
    return found if 0 <= found <= 1 << 16 else None
