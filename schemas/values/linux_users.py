"""Which Linux users and groups are whose. Standard library only."""

from __future__ import annotations

from schemas.values.naturals import parse_natural

FIRST_REGULAR_ID = 1000
"""Users and groups below are the system's: no document opens their files to sessions."""
LARGEST_ID = 2**32 - 2
LAST_IMAGE_ID = 65_535
"""Images have users up to here; numbers above are for projects (`Cluster.spec.sessionUids`)."""


def numeric_id(word: str) -> int | None:
    """A user's or group's number; None for a name."""
    return parse_natural(word)


def is_root(word: str) -> bool:
    return word == "root" or numeric_id(word) == 0
