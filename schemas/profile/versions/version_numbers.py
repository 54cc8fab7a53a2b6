"""Versions as numbers: `550.90.07-0ubuntu1` is older than `550.127.05`."""

from __future__ import annotations

import re

_NUMBERS = re.compile(r"(?:[0-9]{1,18}:)?v?([0-9]{1,18}(?:\.[0-9]{1,18})*)")


def version_numbers(version: str) -> tuple[int, ...]:
    """The numbers of a version as its maker counts, without a package's epoch and revision."""
    found = _NUMBERS.match(version)
    return tuple(int(part) for part in found[1].split(".")) if found else ()


def is_older(version: str, than: str) -> bool:
    """Whether a version comes before another one; parts that one of them lacks count as zero."""
    one, two = version_numbers(version), version_numbers(than)
    width = max(len(one), len(two))
    return one + (0,) * (width - len(one)) < two + (0,) * (width - len(two))


def driver_branch(driver: str) -> int:
    """The branch of a driver's version: 550 of `550.90.07`; 0 when it has none."""
    return next(iter(version_numbers(driver)), 0)


def upstream_version(version: str) -> str:
    """A version without a package's epoch and revision: `550.90.07` of `1:550.90.07-0ubuntu1`."""
    return version.rpartition(":")[2].partition("-")[0]
