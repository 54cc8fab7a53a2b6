"""What a session takes over from its images: references for names, least amounts, ports of apps. Pure."""

from __future__ import annotations

from schemas.images.catalog import ImageCatalog
from schemas.kinds.image import Image
from schemas.kinds.parts.resources import Resources
from schemas.kinds.session import RoleOverride, SessionSpec

_SERVING = frozenset({"interactive", "inference"})


def resolve_session_images(spec: SessionSpec, catalog: ImageCatalog) -> SessionSpec:
    """The spec that says all it depends on: who reads it needs no Image document beside it. The same where it
    takes nothing over."""
    image = catalog.find(spec.image) if spec.image else None
    roles = {role: _resolve_role(own, image, catalog) for role, own in spec.cluster.per_role.items()}
    ports = spec.ports
    if image is not None and not ports and spec.type in _SERVING:
        ports = image.spec.ports
    if image is None and not roles:
        return spec
    changes: dict[str, object] = {"resources": _with_minimum(spec.resources, image), "ports": ports}
    if image is not None:
        changes["image"] = _resolve_reference(spec.image or "", image, catalog)
    if roles:
        changes["cluster"] = spec.cluster.model_copy(update={"per_role": roles})
    return spec.model_copy(update=changes)


def _resolve_role(own: RoleOverride, of_all: Image | None, catalog: ImageCatalog) -> RoleOverride:
    image = catalog.find(own.image) if own.image else None
    changes: dict[str, object] = {}
    if own.resources is not None:
        changes["resources"] = _with_minimum(own.resources, image if own.image else of_all)
    if image is not None:
        changes["image"] = _resolve_reference(own.image or "", image, catalog)
    return own.model_copy(update=changes)


def _resolve_reference(written: str, image: Image, catalog: ImageCatalog) -> str:
    """The reference of an image that is named; one that is written out stays as it is."""
    return catalog.reference_of(image).short if written == image.name else written


def _with_minimum(resources: Resources, image: Image | None) -> Resources:
    """With the image's least cpu and memory where the session says nothing."""
    least = image.spec.minimum if image is not None else None
    if least is None:
        return resources
    given = {"cpu": least.cpu, "memory": least.memory}
    missing = {name: value for name, value in given.items() if value and getattr(resources, name) is None}
    return resources.model_copy(update=missing) if missing else resources
