"""What is accepted and still worth saying: a warning of `bai validate` and of every plan, never silence."""

from __future__ import annotations

from collections.abc import Iterator

from schemas.kinds.image import Registry
from schemas.kinds.session import Session
from schemas.problems.issues import Issue
from schemas.profile import NodeProfile
from schemas.profile.versions.compatibility import unchecked_gpus
from schemas.rules import inactive_fields
from schemas.rules.image_rules import is_loopback
from schemas.rules.sessions.request_rules import little_cpu_warnings
from schemas.values.envelope import Resource
from schemas.values.once_per_value import once_per_value


@once_per_value
def document_warnings(resource: Resource) -> tuple[Issue, ...]:
    """The warnings about one sound document."""
    return tuple(_warnings(resource))


def _warnings(resource: Resource) -> Iterator[Issue]:
    yield from inactive_fields.inactive_field_warnings(resource)
    if isinstance(resource, Registry):
        yield from _registry_warnings(resource)
    if isinstance(resource, NodeProfile):
        yield from unchecked_gpus(resource)
    if isinstance(resource, Session):
        yield from little_cpu_warnings(resource)


def _registry_warnings(registry: Registry) -> Iterator[Issue]:
    address = registry.spec.address
    if registry.spec.plain_http and not is_loopback(address):
        message = f"NOT SAFE: {address} is spoken to without TLS; anyone on the way can read and swap images"
        yield Issue(("spec", "plainHttp"), message, "give it a certificate", "BAI-V091", key=True)
    if registry.spec.insecure and not is_loopback(address):
        message = f"NOT SAFE: whoever answers as {address} is believed; anyone on the way can swap images"
        yield Issue(("spec", "insecure"), message, "name its certificate in caFrom", "BAI-V091", key=True)
