"""What a file of requirements/ locks: names, versions and hashes, as `uv pip compile` writes them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


@dataclass(frozen=True, order=True, slots=True)
class Locked:
    """One distribution."""

    name: str
    """Normalized (PEP 503)."""
    version: str
    marker: str
    """Where it is installed (PEP 508); empty: everywhere."""
    hashes: tuple[str, ...]
    """SHA-256 of the files that may be installed, in hexadecimal, sorted."""


def read_locked(path: Path) -> list[Locked]:
    """Sorted by name. Raises ValueError with file and line for what has not one version with hashes."""
    found: list[Locked] = []
    lines = path.read_text().splitlines()
    start, whole = 1, ""
    for number, line in enumerate(lines, 1):
        if not whole:
            start = number
        text = line.strip()
        if text.startswith("#"):
            continue
        whole += text.removesuffix("\\")
        if not text.endswith("\\") and whole:
            found.append(_locked(whole, f"{path}:{start}"))
            whole = ""
    return sorted(found)


def _locked(text: str, where: str) -> Locked:
    words, *_ = text.partition("--hash")
    hashes = tuple(sorted(re.findall(r"--hash=sha256:([0-9a-f]{64})", text)))
    try:
        requirement = Requirement(words.strip())
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    pins = [each.version for each in requirement.specifier if each.operator == "=="]
    if len(pins) != 1 or len(requirement.specifier) != 1 or not hashes:
        raise ValueError(f"{where}: {requirement.name} is not locked to one version with SHA-256 hashes")
    marker = str(requirement.marker) if requirement.marker else ""
    return Locked(canonicalize_name(requirement.name), pins[0], marker, hashes)
