"""hwloc's masks of CPUs."""

from __future__ import annotations

from schemas.hardware.cpulist import parse_mask
from schemas.hardware.importers.facts import UnreadableCapture


def parse_cpuset(text: str | None, processors: tuple[int, ...]) -> tuple[int, ...]:
    """CPU numbers of hwloc's mask; `0xf...f` in front stands for all higher ones."""
    words = (text or "").strip()
    endless = words.startswith("0xf...f")
    words = words[len("0xf...f") :].lstrip(",") if endless else words
    try:
        found = set(parse_mask(words)) if words else set()
    except ValueError as error:
        raise UnreadableCapture(f"{error}") from None
    above = 32 * (words.count(",") + 1) if words else 0
    return tuple(sorted(found | {cpu for cpu in processors if endless and cpu >= above}))
