"""What is known of the image that a document names. Pure."""

from __future__ import annotations

from reconciler.values.state import Actual
from schemas.images.facts import ImageFacts
from schemas.kinds.image import Image
from schemas.repository.repository import Repository


def known_image(text: str, repository: Repository, actual: Actual) -> tuple[Image | None, ImageFacts | None]:
    try:
        reference = repository.images.resolve(text)
    except ValueError:
        return None, None
    return repository.images.find(text), actual.images.get(str(reference))
