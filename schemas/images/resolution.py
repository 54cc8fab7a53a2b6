"""Which image a session's `image` means, where it comes from, and what it asks of a container. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from schemas.images.facts import ImageFacts
from schemas.images.labels import said
from schemas.kinds.image import MACHINES, Image, Registry
from schemas.repository.repository import Repository
from schemas.values.image_reference import DOCKER_HUB, ImageReference, parse_reference
from schemas.values.quantities import format_cpu, format_memory, format_shares

_NEAR = 0.75


def reference_of(repository: Repository, image: Image) -> ImageReference:
    """An Image's full reference. Raises ValueError where it names two registries."""
    written = parse_reference(image.spec.reference)
    registry = repository.resources.get(f"Registry/{image.spec.registry}")
    if not isinstance(registry, Registry):
        return written
    address = registry.spec.address
    if written.domain == address:
        return written
    if written.domain != DOCKER_HUB or image.spec.reference.startswith((f"{DOCKER_HUB}/", "index.")):
        raise ValueError(f"the reference names {written.domain}, Registry/{registry.name} is {address}")
    return parse_reference(f"{address}/{image.spec.reference}")


def image_of(repository: Repository, text: str) -> Image | None:
    """The Image document that a session means: by its name, or by the same full reference."""
    named = repository.resources.get(f"Image/{text}")
    if isinstance(named, Image):
        return named
    try:
        wanted = parse_reference(text)
    except ValueError:
        return None
    return repository.described.get(wanted)


def described(repository: Repository) -> dict[ImageReference, Image]:
    """Every Image document by its full reference; the first of several."""
    found: dict[ImageReference, Image] = {}
    for image in repository.of(Image):
        try:
            found.setdefault(reference_of(repository, image), image)
        except ValueError:
            continue
    return found


def resolve(repository: Repository, text: str) -> ImageReference:
    """The full reference of what a session names. Raises ValueError for what is none."""
    named = repository.resources.get(f"Image/{text}")
    return reference_of(repository, named) if isinstance(named, Image) else parse_reference(text)


def mistaken(repository: Repository, text: str) -> tuple[str, str] | None:
    """What is wrong with a session's `image`, and what was probably meant; None when nothing is.

    A bare word that is nearly an Image's name is taken for a slip, never for an image of Docker Hub.
    """
    names = [image.name for image in repository.of(Image)]
    if text in names:
        return None
    near = difflib.get_close_matches(text, names, 1, _NEAR) if len(text) < 100 else []
    hint = f"did you mean '{near[0]}'?" if near else ""
    try:
        found = parse_reference(text)
    except ValueError as error:
        message, _, other = str(error).partition("; ")
        return message, hint or other
    if near and not any(mark in text for mark in "/:@"):
        return f"there is no Image '{text}'", f"{hint} For the one of Docker Hub write {found.path}:latest"
    return None


def registry_of(repository: Repository, reference: ImageReference) -> Registry | None:
    """The Registry document that serves an image; one that names it comes before one that serves all."""
    found = [r for r in repository.of(Registry) if r.spec.address == reference.domain]
    by_name = [r for r in found if any(fnmatchcase(reference.path, p) for p in r.spec.serves)]
    return next(iter(by_name or [r for r in found if not r.spec.serves]), None)


@dataclass(frozen=True, slots=True)
class Needs:
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
            if _short(slot, given, least, slots):
                has = _amount(slot, given or 0)
                yield f"has {has}, and image {self.name} needs at least {_amount(slot, least)}"
        for slot, most in sorted(self.maximum.items()):
            given = slots.get(slot)
            if given is not None and given > most:
                yield f"has {_amount(slot, given)}, and image {self.name} takes at most {_amount(slot, most)}"
        if self.accelerators is not None:
            devices = {slot for slot, n in slots.items() if n} - {"cpu", "mem"}
            vendors = {slot.partition(".")[0] for slot in devices}
            for vendor in sorted(vendors - set(self.accelerators)):
                can = ", ".join(self.accelerators) or "none"
                yield f"has {vendor} devices, and image {self.name} can use {can}"


def _short(slot: str, given: int | None, least: int, slots: Mapping[str, int]) -> bool:
    if slot in ("cpu", "mem"):
        return given is not None and given < least
    vendor, _, what = slot.partition(".")
    if what in ("device", "shares") and not given:
        # A device, a part of one and an instance of one are as good as each other.
        return bool(least) and not any(n for other, n in slots.items() if other.startswith(f"{vendor}."))
    return (given or 0) < least


def _amount(slot: str, value: int) -> str:
    if slot == "cpu":
        return f"{format_cpu(value)} cpu"
    if slot == "mem":
        return f"{format_memory(value)} of memory"
    return f"{format_shares(value) if slot.endswith('.shares') else value} {slot}"


def needs(text: str, image: Image | None, facts: ImageFacts | None) -> Needs:
    """From the document first, then from labels: the document's, else the registry's."""
    spec = image.spec if image else None
    labels = spec.labels if spec and spec.labels is not None else facts.labels if facts else {}
    told = said(labels)
    names: tuple[str, ...] = spec.architectures if spec else ()
    names = names or tuple(facts.platforms if facts else ())
    own = spec.accelerators if spec else None
    return Needs(
        image.name if image else text,
        {**told.minimum, **(spec.minimum.slots if spec else {})},
        {**told.maximum, **(spec.maximum.slots if spec else {})},
        told.accelerators if own is None else own,
        frozenset(MACHINES.get(name, name) for name in names),
    )
