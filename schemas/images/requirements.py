"""What an image asks of a container: least and most amounts, accelerators, architectures. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from schemas.images.facts import ImageFacts
from schemas.images.labels import parse_labels
from schemas.kinds.image import MACHINES, Image
from schemas.kinds.parts.resources import is_slot
from schemas.values.quantities import format_cpu, format_memory, format_shares


@dataclass(frozen=True, slots=True)
class ImageRequirements:
    """What an image asks of a container, from its document and its labels. Amounts by the planner's slots."""

    name: str
    minimum: Mapping[str, int] = field(default_factory=dict)
    maximum: Mapping[str, int] = field(default_factory=dict)
    accelerators: tuple[str, ...] | None = None
    machines: frozenset[str] = frozenset()
    """Architectures as Linux names them; empty when not known."""

    def refusals(self, slots: Mapping[str, int]) -> Iterator[str]:
        """Why a container with these amounts cannot have the image. What a container leaves out of cpu and
        memory is not limited, hence enough."""
        for slot, least in sorted(self.minimum.items()):
            given = slots.get(slot)
            if _is_short(slot, given, least, slots):
                has = _format_amount(slot, given or 0)
                yield f"has {has}, and image {self.name} needs at least {_format_amount(slot, least)}"
        for slot, most in sorted(self.maximum.items()):
            given = slots.get(slot)
            if given is not None and given > most:
                has = _format_amount(slot, given)
                yield f"has {has}, and image {self.name} takes at most {_format_amount(slot, most)}"
        if self.accelerators is not None:
            devices = {slot for slot, n in slots.items() if n and is_slot(slot)}
            vendors = {slot.partition(".")[0] for slot in devices}
            for vendor in sorted(vendors - set(self.accelerators)):
                can = ", ".join(self.accelerators) or "none"
                yield f"has {vendor} devices, and image {self.name} can use {can}"


def _is_short(slot: str, given: int | None, least: int, slots: Mapping[str, int]) -> bool:
    if slot in ("cpu", "mem"):
        return given is not None and given < least
    vendor, _, what = slot.partition(".")
    if what in ("device", "shares") and not given:
        # A device, a part of one and an instance of one are as good as each other.
        return bool(least) and not any(n for other, n in slots.items() if other.startswith(f"{vendor}."))
    return (given or 0) < least


def _format_amount(slot: str, value: int) -> str:
    if slot == "cpu":
        return f"{format_cpu(value)} cpu"
    if slot == "mem":
        return f"{format_memory(value)} of memory"
    if slot.startswith("hugepages-"):
        return f"{format_memory(value)} of {slot}"
    return f"{format_shares(value) if slot.endswith('.shares') else value} {slot}"


def image_requirements(text: str, image: Image | None, facts: ImageFacts | None) -> ImageRequirements:
    """From the document first, then from labels: the document's, else the registry's."""
    spec = image.spec if image else None
    labels = spec.labels if spec and spec.labels is not None else facts.labels if facts else {}
    told = parse_labels(labels)
    names: tuple[str, ...] = spec.architectures if spec else ()
    names = names or tuple(facts.platforms if facts else ())
    own = spec.accelerators if spec else None
    return ImageRequirements(
        image.name if image else text,
        {**told.minimum, **(spec.minimum.slots if spec else {})},
        {**told.maximum, **(spec.maximum.slots if spec else {})},
        told.accelerators if own is None else own,
        frozenset(MACHINES.get(name, name) for name in names),
    )
