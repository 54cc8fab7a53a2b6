"""Devices that are known by their number alone: somebody else counts them, and chooses which ones a kernel
gets.

A number says how many there are, and which kernel has how many of them. It names no piece of hardware: number
3 today may be another GPU than number 3 tomorrow.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_FORM = re.compile(
    r"([a-z0-9][-a-z0-9.]{0,252}):([a-z0-9][-a-z0-9.]{0,252}/[A-Za-z0-9][-A-Za-z0-9_.]{0,62}):(0|[1-9][0-9]{0,5})",
    re.ASCII,
)


class AnonymousDevice(NamedTuple):
    """One of those that a node counts under the name of a resource (`nvidia.com/gpu`)."""

    node: str
    resource: str
    number: int

    @property
    def id(self) -> str:
        """As hardware and placements have it: no UUID and no PCI address looks so."""
        return f"{self.node}:{self.resource}:{self.number}"


def parse_anonymous(device: str) -> AnonymousDevice | None:
    """None for the id of a device that is known."""
    found = _FORM.fullmatch(device)
    return AnonymousDevice(found[1], found[2], int(found[3])) if found else None


def is_anonymous(device: str) -> bool:
    return ":" in device and _FORM.fullmatch(device) is not None
