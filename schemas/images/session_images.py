"""What a session takes over from its images: references for names, least amounts, ports of apps. Pure."""

from __future__ import annotations

from schemas.images.resolution import image_of, reference_of
from schemas.kinds.image import Image
from schemas.kinds.resources import Resources
from schemas.kinds.session import RoleOverride, SessionSpec
from schemas.repository.repository import Repository

_SERVING = frozenset({"interactive", "inference"})


def with_images(spec: SessionSpec, repository: Repository) -> SessionSpec:
    """The spec that says all it depends on: who reads it needs no Image document beside it."""
    image = image_of(repository, spec.image) if spec.image else None
    roles = {role: _role(own, image, repository) for role, own in spec.cluster.per_role.items()}
    ports = spec.ports
    if image is not None and not ports and spec.type in _SERVING:
        ports = image.spec.ports
    changes: dict[str, object] = {"resources": _filled(spec.resources, image), "ports": ports}
    if image is not None:
        changes["image"] = _text(spec.image or "", image, repository)
    if roles:
        changes["cluster"] = spec.cluster.model_copy(update={"per_role": roles})
    return spec.model_copy(update=changes)


def _role(own: RoleOverride, of_all: Image | None, repository: Repository) -> RoleOverride:
    image = image_of(repository, own.image) if own.image else None
    changes: dict[str, object] = {}
    if own.resources is not None:
        changes["resources"] = _filled(own.resources, image if own.image else of_all)
    if image is not None:
        changes["image"] = _text(own.image or "", image, repository)
    return own.model_copy(update=changes)


def _text(written: str, image: Image, repository: Repository) -> str:
    """The reference of an image that is named; one that is written out stays as it is."""
    return reference_of(repository, image).short if written == image.name else written


def _filled(resources: Resources, image: Image | None) -> Resources:
    """With the image's least cpu and memory where the session says nothing."""
    least = image.spec.minimum if image is not None else None
    if least is None:
        return resources
    given = {"cpu": least.cpu, "memory": least.memory}
    missing = {name: value for name, value in given.items() if value and getattr(resources, name) is None}
    return resources.model_copy(update=missing) if missing else resources
