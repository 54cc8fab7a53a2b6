"""What pods ask for of a node's CPU and memory, by bai's slots. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from providers.kubernetes.objects.quantity import parse_quantity
from schemas.hardware.model import PageSize

CPU, MEMORY = "cpu", "mem"
PAGES: Mapping[str, tuple[int, PageSize]] = {
    "hugepages-2Mi": (2 << 20, "2Mi"),
    "hugepages-1Gi": (1 << 30, "1Gi"),
}
"""Huge pages, which are called alike here and there: bytes of one, and how hardware names it."""
SLOTS = {"cpu": CPU, "memory": MEMORY, **{name: name for name in PAGES}}
"""Name in the API → slot."""


def parse_amounts(given: Mapping[str, Any] | None) -> Counter[str]:
    """Thousandths of cores, and bytes; nothing of what is not asked for."""
    found = {
        SLOTS[name]: parse_quantity(str(text or "0"), milli=name == "cpu")
        for name, text in (given or {}).items()
        if name in SLOTS
    }
    return Counter({slot: amount for slot, amount in found.items() if amount})
