"""Whom a command that enters a kernel becomes: the identity of the kernel's main process, as the machine sees
it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Identity:
    """`uid`, `gid` and `groups` are the machine's numbers, `inner_uid` and `inner_gid` those of the kernel's
    user namespace; `power` and `bounding` are capabilities, one bit each."""

    uid: int
    gid: int
    inner_uid: int
    inner_gid: int
    groups: tuple[int, ...]
    power: int
    """What it can have after an exec."""
    bounding: int
    no_new_privs: bool


def parse_identity(status: Mapping[str, str], uid_map: str, gid_map: str) -> Identity:
    """From the process's `status`, `uid_map` and `gid_map` in /proc, read in the machine's user namespace.

    Raises ValueError (KeyError for a field that is not there) when its own namespace has no number for it.
    """
    uid, gid = int(status["Uid"].split()[0]), int(status["Gid"].split()[0])
    bounding = int(status["CapBnd"], 16)
    return Identity(
        uid=uid,
        gid=gid,
        inner_uid=map_into_namespace(uid, uid_map),
        inner_gid=map_into_namespace(gid, gid_map),
        groups=tuple(int(word) for word in status["Groups"].split()),
        power=bounding & int(status["CapPrm"], 16),
        bounding=bounding,
        no_new_privs=status.get("NoNewPrivs", "0") != "0",
    )


def map_into_namespace(number: int, mapping: str) -> int:
    """The machine's number as the namespace has it, by user_namespaces(7)'s lines of first number inside,
    first number outside, length. Raises ValueError."""
    for line in mapping.splitlines():
        first, outer, length = map(int, line.split())
        if outer <= number < outer + length:
            return first + number - outer
    raise ValueError(f"its user namespace has no number for {number}")
