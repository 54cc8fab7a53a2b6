"""`CpuList`: a field holding logical CPU numbers, written in the kernel's notation: `0-3,8` ⇄ (0, 1, 2, 3,
8).
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from schemas.hardware.cpulist import MAX_CPU, format_cpus, parse_cpus

__all__ = ["MAX_CPU", "CpuList", "format_cpus", "parse_cpus"]


def _parse_cpu_list(value: object) -> object:
    if isinstance(value, str):
        return parse_cpus(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_CPU:
        return (value,)
    if isinstance(value, tuple | range):  # already read
        if not all(isinstance(cpu, int) and 0 <= cpu <= MAX_CPU for cpu in value):
            raise ValueError(f"a CPU number is at most {MAX_CPU}")
        return tuple(value)
    raise ValueError("a CPU list is a text such as 0-3,8")


_PATTERN = r"^\s*(\d{1,6}(-\d{1,6})?(\s*,\s*\d{1,6}(-\d{1,6})?)*)?\s*$"

CpuList = Annotated[
    tuple[int, ...],
    BeforeValidator(_parse_cpu_list),
    PlainSerializer(format_cpus, return_type=str),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": _PATTERN},
                {"type": "integer", "minimum": 0, "maximum": MAX_CPU},
            ]
        }
    ),
]
