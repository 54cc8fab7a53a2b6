"""The Image and Registry documents of a repository: which image a session's `image` means, and where it comes
from. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property

from schemas.kinds.image import Image, Registry
from schemas.values.image_reference import DOCKER_HUB, ImageReference, parse_reference

_NEAR = 0.75


@dataclass(frozen=True)
class ImageCatalog:
    """Both by their names, sorted."""

    images: Mapping[str, Image]
    registries: Mapping[str, Registry]

    def reference_of(self, image: Image) -> ImageReference:
        """An Image's full reference. Raises ValueError where it names two registries."""
        written = parse_reference(image.spec.reference)
        registry = self.registries.get(image.spec.registry or "")
        if registry is None:
            return written
        address = registry.spec.address
        if written.domain == address:
            return written
        if written.domain != DOCKER_HUB or image.spec.reference.startswith((f"{DOCKER_HUB}/", "index.")):
            raise ValueError(f"the reference names {written.domain}, Registry/{registry.name} is {address}")
        return parse_reference(f"{address}/{image.spec.reference}")

    def find(self, text: str) -> Image | None:
        """The Image document that a session means: by its name, or by the same full reference."""
        if text in self.images:
            return self.images[text]
        try:
            wanted = parse_reference(text)
        except ValueError:
            return None
        return self.by_reference.get(wanted)

    def resolve(self, text: str) -> ImageReference:
        """The full reference of what a session names. Raises ValueError for what is none."""
        named = self.images.get(text)
        return self.reference_of(named) if named is not None else parse_reference(text)

    @cached_property
    def by_reference(self) -> Mapping[ImageReference, Image]:
        """Every Image document by its full reference; the first of several."""
        found: dict[ImageReference, Image] = {}
        for image in self.images.values():
            try:
                found.setdefault(self.reference_of(image), image)
            except ValueError:
                continue
        return found

    @cached_property
    def by_name(self) -> Mapping[str, list[Image]]:
        """The Image documents by registry and repository, without tag and digest."""
        found: dict[str, list[Image]] = {}
        for reference, image in self.by_reference.items():
            found.setdefault(reference.name, []).append(image)
        return found

    def mistake(self, text: str) -> tuple[str, str] | None:
        """What is wrong with a session's `image`, and what was probably meant; None when nothing is.

        A bare word that is nearly an Image's name is taken for a slip, never for an image of Docker Hub.
        """
        if text in self.images:
            return None
        near = difflib.get_close_matches(text, self.images, 1, _NEAR) if len(text) < 100 else []
        hint = f"did you mean '{near[0]}'?" if near else ""
        try:
            found = parse_reference(text)
        except ValueError as error:
            message, _, other = str(error).partition("; ")
            return message, hint or other
        if near and not any(mark in text for mark in "/:@"):
            return (
                f"there is no Image '{text}'",
                f"{hint} For the one of Docker Hub write {found.path}:latest",
            )
        return None

    def registry_of(self, reference: ImageReference) -> Registry | None:
        """The Registry document that serves an image; one that names it comes before one that serves all."""
        found = [each for each in self.registries.values() if each.spec.address == reference.domain]
        by_name = [r for r in found if any(fnmatchcase(reference.path, p) for p in r.spec.serves)]
        return next(iter(by_name or [r for r in found if not r.spec.serves]), None)
