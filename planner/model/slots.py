"""Exact integer arithmetic over named slots, and how a person reads them.

A slot map holds integers in the smallest unit of each slot (see `planner.model.types`); a slot that is
missing counts as zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

CPU = "cpu"
MEMORY = "mem"
HUGEPAGES = "hugepages-"
PAGES = {"hugepages-1Gi": 1 << 30, "hugepages-2Mi": 2 << 20}
"""Bytes of one huge page, by slot."""
SHARES = ".shares"
DEVICE = ".device"
PODS = "pods"
CLAIMS = "resourceclaims"
DEVICES_OF_A_CLAIM = 32
"""Of Kubernetes: pods, and the claims that these have their devices by."""

_BINARY = (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


def total(maps: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Sum of slot maps, slot by slot."""
    result: dict[str, int] = {}
    for one in maps:
        for slot, amount in one.items():
            result[slot] = result.get(slot, 0) + amount
    return result


def is_device(slot: str) -> bool:
    """Whether the slot is an accelerator of some kind rather than CPU or memory."""
    return slot not in {CPU, MEMORY} and not slot.startswith(HUGEPAGES)


def whole_slot(shares_slot: str) -> str:
    """`cuda.shares` → `cuda.device`, the slot whose devices it divides."""
    return shares_slot[: -len(SHARES)] + DEVICE


def decimal(milli: int) -> str:
    """1500 → `1.5`."""
    text = f"{milli / 1000:.3f}".rstrip("0").rstrip(".")
    return text or "0"


def bytes_text(amount: int) -> str:
    """Bytes in the largest binary unit that they fill, with two decimals, rounded down: what is a little less
    than somebody asks for must not read like it."""
    for unit, size in _BINARY:
        if amount >= size:
            whole, part = divmod(100 * amount // size, 100)
            return f"{whole}.{part:02d}".rstrip("0").rstrip(".") + f" {unit}" if part else f"{whole} {unit}"
    return f"{amount} B"


def plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def device_word(slot: str) -> str:
    """What a person calls one unit of a device slot."""
    if slot == "cuda.device" or slot == "rocm.device":
        return "GPU"
    return slot


def amount_text(slot: str, amount: int) -> str:
    """An amount of a slot in words: `4 GPUs`, `16 cores`, `64 GiB`, `0.5 cuda.shares`."""
    if slot == CPU:
        text = decimal(amount)
        return f"{text} core" if text == "1" else f"{text} cores"
    if slot == MEMORY:
        return bytes_text(amount)
    if slot.startswith(HUGEPAGES):
        return f"{bytes_text(amount)} of {slot}"
    if slot.endswith(SHARES):
        return f"{decimal(amount)} {slot}"
    if slot == PODS:
        return plural(amount, "pod")
    if slot == CLAIMS:
        return plural(amount, "resource claim")
    if slot.endswith(DEVICE) and device_word(slot) == "GPU":
        return plural(amount, "GPU")
    return f"{amount} {slot}"


def slots_text(slots: Mapping[str, int]) -> str:
    """All non-zero slots in words, comma-separated; `nothing` when there are none."""
    return (
        ", ".join(amount_text(slot, amount) for slot, amount in sorted(slots.items()) if amount) or "nothing"
    )
