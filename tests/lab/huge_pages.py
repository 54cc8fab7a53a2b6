"""A few huge pages of this machine's, set aside for a test and given back afterwards."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from tests.lab.cache import alone
from tests.waiting import until

_SETTING = Path("/proc/sys/vm/nr_hugepages")
SIZE = 2 << 20


def why_not() -> str:
    """What the machine lacks."""
    if os.geteuid() != 0:
        return "only root sets huge pages aside"
    return "" if _figures().get("Hugepagesize") == SIZE >> 10 else "this machine has no huge pages of 2 MiB"


def _figures() -> dict[str, int]:
    lines = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
    return {name.rstrip(":"): int(number) for name, number, *_ in lines}


def free() -> int:
    """Pages that nobody has, and nobody is promised."""
    found = _figures()
    return found["HugePages_Free"] - found["HugePages_Rsvd"]


@contextlib.contextmanager
def set_aside(count: int) -> Iterator[None]:
    """So many more; one test at a time."""
    with alone("huge-pages"):
        before = int(_SETTING.read_text())
        try:
            _SETTING.write_text(f"{before + count}\n")
            until(lambda: free() >= count, "there are as many huge pages")
            yield
        finally:
            _SETTING.write_text(f"{before}\n")
