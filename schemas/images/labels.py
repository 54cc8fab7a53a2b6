"""What an image says about itself in its labels: `ai.backend.*` as Backend.AI writes them, and `bai.*`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from schemas.kinds.parts.resources import is_slot
from schemas.values.naturals import parse_natural
from schemas.values.quantities import parse_cpu, parse_shares

PREFIXES = ("ai.backend.", "bai.")
"""Later ones win."""
_RESOURCES = ("ai.backend.resource.", "bai.")
_BINARY = re.compile(r"([0-9]+(?:\.[0-9]{1,9})?) ?([kmgtp]?)(?:i?b)?\Z", re.IGNORECASE)
_UNITS: dict[str, int] = {unit: 1024**power for power, unit in enumerate(("", "k", "m", "g", "t", "p"))}
_PORT = re.compile(r"([a-z0-9][a-z0-9-]{0,62}):([a-z]+):(?:([0-9]{1,5})|\[([0-9,]+)\])\Z")


@dataclass(frozen=True, slots=True)
class ImageLabels:
    """The labels that are understood. Amounts by the planner's slots: `cpu` milli-cores, `mem` bytes."""

    minimum: Mapping[str, int] = field(default_factory=dict)
    maximum: Mapping[str, int] = field(default_factory=dict)
    accelerators: tuple[str, ...] | None = None
    ports: tuple[tuple[str, str, int], ...] = ()
    """Name, protocol, number of every app."""
    unreadable: tuple[str, ...] = ()
    """Labels of these names whose value means nothing."""


def parse_labels(labels: Mapping[str, str]) -> ImageLabels:
    """What labels say; never raises: an image may carry anything."""
    bad: list[str] = []
    return ImageLabels(
        dict(_parse_amounts(labels, "min.", bad)),
        dict(_parse_amounts(labels, "max.", bad)),
        _parse_accelerators(labels),
        tuple(_parse_ports(labels, bad)),
        tuple(sorted(bad)),
    )


def _parse_amounts(labels: Mapping[str, str], which: str, bad: list[str]) -> Iterator[tuple[str, int]]:
    for start in _RESOURCES:
        for key, value in sorted(labels.items()):
            if not key.startswith(start + which):
                continue
            slot = key.removeprefix(start + which)
            slot = "mem" if slot == "memory" else slot
            try:
                yield slot, _parse_amount(slot, value.strip())
            except ValueError:
                bad.append(key)


def _parse_amount(slot: str, value: str) -> int:
    if slot == "cpu":
        return parse_cpu(value)
    if slot == "mem":
        return _parse_binary_memory(value)
    if not is_slot(slot):
        raise ValueError(slot)
    if slot.endswith(".shares"):
        return parse_shares(value)
    number = parse_natural(value)
    if number is None:
        raise ValueError(value)
    return number


def _parse_binary_memory(value: str) -> int:
    """Bytes of `512m`, `1g`, `1.5GiB`: these labels count in powers of 1024 whatever they write."""
    found = _BINARY.match(value)
    if not found:
        raise ValueError(value)
    whole, _, part = found[1].partition(".")
    unit = _UNITS[found[2].lower()]
    rest = int(part or 0) * unit // int(10 ** len(part))
    return int(whole) * unit + rest


def _parse_accelerators(labels: Mapping[str, str]) -> tuple[str, ...] | None:
    found = None
    for prefix in PREFIXES:
        value = labels.get(prefix + "accelerators")
        if value is not None:
            found = tuple(sorted({word.strip() for word in value.split(",") if word.strip()}))
    return found


def _parse_ports(labels: Mapping[str, str], bad: list[str]) -> Iterator[tuple[str, str, int]]:
    for prefix in reversed(PREFIXES):
        key = prefix + "service-ports"
        if key not in labels:
            continue
        # A list in brackets holds commas itself.
        for part in re.split(r",(?![^\[]*\])", labels[key]):
            found = _PORT.match(part.strip())
            if found:
                numbers = [parse_natural(number, 65_535) for number in (found[3] or found[4]).split(",")]
                yield from ((found[1], found[2], number) for number in numbers if number)
            elif part.strip():
                bad.append(key)
        return
