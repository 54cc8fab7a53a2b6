"""What Registry and Image documents must fulfil, and what sessions must that name an image."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Any

from schemas.images.labels import parse_labels
from schemas.images.requirements import image_requirements
from schemas.kinds.cluster import Cluster
from schemas.kinds.image import Image, Registry
from schemas.kinds.session import Session
from schemas.problems.issues import Issue, Loc
from schemas.repository.repository import Repository
from schemas.rules.machine_rules import duplicate_rules

_OF_CONTAINERS = frozenset({"docker", "kubernetes"})
"""Providers whose images are named as registries name them."""


def registry_rules(registry: Any) -> Iterator[Issue]:
    """One Registry, judged alone."""
    spec = registry.spec
    if spec.plain_http:
        for given, name in ((spec.insecure, "insecure"), (spec.ca_from, "caFrom")):
            if given:
                message = f"plainHttp and {name}: without TLS there is no certificate"
                yield Issue(("spec", name), message, "leave one of them out", "BAI-V034", key=True)
    if spec.insecure and spec.ca_from:
        message = "insecure and caFrom: a certificate is given and not looked at"
        yield Issue(("spec", "insecure"), message, "leave insecure out", "BAI-V034", key=True)
    if spec.plain_http and spec.credentials and not is_loopback(spec.address):
        message = f"a password would be sent to {spec.address} in clear text"
        hint = "use TLS, if need be with a certificate of its own (caFrom)"
        yield Issue(("spec", "plainHttp"), message, hint, "BAI-V050", key=True)
    if spec.projects and spec.type != "harbor":
        message = "projects are Harbor's"
        yield Issue(("spec", "projects"), message, "write type: harbor", "BAI-V034", key=True)
    yield from duplicate_rules((("spec", "projects", i), name) for i, name in enumerate(spec.projects))
    yield from duplicate_rules((("spec", "serves", i), name) for i, name in enumerate(spec.serves))


def is_loopback(address: str) -> bool:
    """Whether an address is the loopback's, where nobody is on the way."""
    host = address.rpartition(":")[0] if ":" in address.rpartition("]")[2] else address
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def image_rules(image: Any) -> Iterator[Issue]:
    """One Image, judged alone."""
    spec = image.spec
    least, most = spec.minimum.slots, spec.maximum.slots
    for slot in sorted(least.keys() & most.keys()):
        if least[slot] > most[slot]:
            name = "memory" if slot == "mem" else slot
            yield Issue(("spec", "maximum", name), "less than the minimum", code="BAI-V032")
    for key in parse_labels(spec.labels or {}).unreadable:
        message = f"{key} has no meaning as it stands"
        yield Issue(("spec", "labels", key), message, "write it as the image's label is", "BAI-V032")
    yield from duplicate_rules((("spec", "ports", i, "name"), port.name) for i, port in enumerate(spec.ports))
    yield from duplicate_rules(
        (("spec", "architectures", i), name) for i, name in enumerate(spec.architectures)
    )
    chosen = spec.pre_pull
    if chosen is None:
        return
    some = chosen.nodes or chosen.resource_groups or chosen.node_selector
    if chosen.all and some:
        message = "all nodes, and some of them"
        yield Issue(("spec", "prePull", "all"), message, "leave all out", "BAI-V034", key=True)
    elif not chosen.all and not some:
        message = "it names no node"
        yield Issue(("spec", "prePull"), message, "write all: true, or which nodes", "BAI-V050", key=True)
    if spec.pull_policy == "never":
        message = "it is never pulled, and is to be pulled early"
        yield Issue(("spec", "prePull"), message, "leave prePull or pullPolicy out", "BAI-V034", key=True)


def duplicate_image_rules(repository: Repository, image: Image) -> Iterator[Issue]:
    """An Image among the other documents."""
    try:
        reference = repository.images.reference_of(image)
    except ValueError as error:
        yield Issue(("spec", "reference"), str(error), "leave one of them out", "BAI-V050")
        return
    first = repository.images.find(str(reference))
    if first is not None and first.name != image.name:
        message = f"{first.identity} is the same image, {reference.short}"
        yield Issue(("spec", "reference"), message, "remove one of the two", "BAI-V042")


def duplicate_registry_rules(repository: Repository, registry: Registry) -> Iterator[Issue]:
    """Two documents of one address must serve different images."""
    for other in repository.of(Registry):
        if other.name >= registry.name or other.spec.address != registry.spec.address:
            continue
        if set(other.spec.serves) == set(registry.spec.serves):
            message = f"{other.identity} serves the same images of {registry.spec.address}"
            yield Issue(("spec", "serves"), message, "say which images each of them serves", "BAI-V043")


def session_image_rules(repository: Repository, session: Session, cluster: Cluster) -> Iterator[Issue]:
    """That what a session names as its image is one, and that its containers have what the image asks."""
    if cluster.spec.provider not in _OF_CONTAINERS:
        return
    for at, text in _named_images(session):
        yield from _image_name_rules(repository, text, at)
    yield from _image_amount_rules(repository, session)


def default_image_rules(repository: Repository, cluster: Cluster) -> Iterator[Issue]:
    """That what sessions get as their image is one."""
    text = cluster.spec.defaults.image
    if text and cluster.spec.provider in _OF_CONTAINERS:
        yield from _image_name_rules(repository, text, ("spec", "defaults", "image"))


def _image_name_rules(repository: Repository, text: str, at: Loc) -> Iterator[Issue]:
    wrong = repository.images.mistake(text)
    if wrong is not None:
        yield Issue(at, *wrong, "BAI-V040" if "/" not in text else "BAI-V033")


def _named_images(session: Session) -> Iterator[tuple[Loc, str]]:
    if session.spec.image:
        yield ("spec", "image"), session.spec.image
    for role, own in session.spec.cluster.per_role.items():
        if own.image:
            yield ("spec", "cluster", "perRole", role, "image"), own.image


def _image_amount_rules(repository: Repository, session: Session) -> Iterator[Issue]:
    told: set[tuple[str, str]] = set()
    for container in session.spec.containers:
        image = repository.images.find(container.image) if container.image else None
        if image is None:
            continue
        own = session.spec.cluster.per_role.get(container.role)
        per_role = ("spec", "cluster", "perRole", container.role, "resources")
        at: Loc = per_role if own and own.resources else ("spec", "resources")
        for why in image_requirements(image.name, image, None).refusals(container.resources.slots):
            if (container.role, why) not in told:
                told.add((container.role, why))
                yield Issue(at, f"{container.name} {why}", "", "BAI-V054")
