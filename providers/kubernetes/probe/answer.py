"""What a pod has printed of its node. A node writes the logs of its pods: they are taken for no more than
what it says of itself, and only as far as a machine can be so. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from providers.kubernetes.observe.nodes import ClusterNode
from providers.probe import parse
from schemas.hardware.model import Hardware
from schemas.problems.errors.repository import CannotRead
from schemas.rules.machine_rules import hardware_rules

LARGEST = 2**20
"""Bytes of an answer; that of a machine of eight GPUs and 256 CPUs has some 40 KiB."""
_MOST = {
    "numaNodes": 256, "gpus": 128, "nics": 256, "disks": 512, "links": 2**15, "siblings": 2**15,
    "unknown": 256,
}  # fmt: skip
_LONGEST_TEXT = 1024
_DEEPEST = 8
_CPUS = re.compile(r"([0-9]{1,6})(?:-([0-9]{1,6}))?")


def read_answer(output: bytes, node: ClusterNode) -> Hardware:
    """Raises CannotRead."""
    what = f"the output of the probe on {node.name}"
    lines = [line for line in output.splitlines() if line.startswith(b"{")]
    if not lines:
        raise CannotRead(what=what, why="it has no line of JSON")
    try:
        said = json.loads(lines[-1])
    except (ValueError, RecursionError):
        raise CannotRead(what=what, why="it is no JSON") from None
    problem = next(_problems(said, node), "")
    if problem:
        raise CannotRead(what=what, why=problem)
    found = parse(lines[-1], source=f"the probe on {node.name}")
    for issue in hardware_rules(found, ()):
        raise CannotRead(what=what, why=f"{'.'.join(map(str, issue.at))}: {issue.message}")
    return found


def _problems(said: Any, node: ClusterNode) -> Iterator[str]:
    """Before anything is made of it: a few letters can name very many CPUs."""
    if not isinstance(said, dict):
        yield "it is no object"
        return
    for name, most in _MOST.items():
        if isinstance(said.get(name), list) and len(said[name]) > most:
            yield f"{name}: more than {most}"
    if not _is_modest(said):
        yield f"it has a text of more than {_LONGEST_TEXT} letters where no CPUs are listed, or lies too deep"
    numa = [each.get("cpus") for each in _list(said, "numaNodes") if isinstance(each, dict)]
    lists = {
        "numaNodes": numa, "siblings": _list(said, "siblings"), "isolatedCpus": [said.get("isolatedCpus")],
    }  # fmt: skip
    for name, texts in lists.items():
        named = sum(map(_count_cpus, texts))
        if named > node.cpus:
            yield f"{name}: {named} CPUs, where its kubelet has {node.cpus}"
    seen = sum(map(_count_cpus, numa))
    if seen != node.cpus:
        yield f"numaNodes: {seen} CPUs, where its kubelet has {node.cpus}"


def _list(said: dict[str, Any], name: str) -> list[Any]:
    found = said.get(name)
    return found if isinstance(found, list) else []


def _count_cpus(text: Any) -> int:
    """As many as a list of CPUs names, without making it; other things are refused by the model."""
    if not isinstance(text, str):
        return 0
    pairs = (found.groups() for found in _CPUS.finditer(text))
    return sum(max(1, int(last or first) - int(first) + 1) for first, last in pairs)


def _is_modest(value: Any, depth: int = 0) -> bool:
    if depth > _DEEPEST:
        return False
    if isinstance(value, dict):
        return all(
            len(name) <= _LONGEST_TEXT and (_is_cpu_list(name, each) or _is_modest(each, depth + 1))
            for name, each in value.items()
        )
    if isinstance(value, list):
        return all(_is_modest(each, depth + 1) for each in value)
    return not isinstance(value, str) or len(value) <= _LONGEST_TEXT


def _is_cpu_list(name: str, value: Any) -> bool:
    return name in ("cpus", "offlineCpus", "isolatedCpus") and isinstance(value, str)
