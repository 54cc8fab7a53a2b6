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


def total() -> int:
    """Bytes that are set aside, by whomever."""
    return _figures()["HugePages_Total"] * SIZE


@contextlib.contextmanager
def unchanged() -> Iterator[None]:
    """No test sets any aside meanwhile: what a machine has of them is the same for all who look."""
    with alone("huge-pages"):
        yield


@contextlib.contextmanager
def set_aside(count: int) -> Iterator[None]:
    """So many more; one test at a time."""
    with alone("huge-pages"):
        before = int(_SETTING.read_text())

        def are_there() -> bool:
            """The kernel takes what it finds in one piece, and looks no further before it is asked again."""
            _SETTING.write_text(f"{before + count}\n")
            return free() >= count

        try:
            until(are_there, "there are as many huge pages", pause=0.2)
            yield
        finally:
            _SETTING.write_text(f"{before}\n")
