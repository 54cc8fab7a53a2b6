"""Which digest containers are made from, where a document names a tag. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from providers.base import KernelSpec, Observed
from reconciler.plan.context import PlanContext
from reconciler.plan.images.known_images import known_image
from reconciler.values.session_phase import LIVE
from reconciler.values.state import Actual
from schemas.images.facts import ImageFacts
from schemas.kinds.image import Image
from schemas.kinds.session import Session
from schemas.repository.repository import Repository
from schemas.values.image_reference import ImageReference, parse_reference


def pin_images(
    context: PlanContext, specs: tuple[KernelSpec, ...], beside: Iterable[Observed] = ()
) -> tuple[KernelSpec, ...]:
    """The specs with digests in place of tags, where they are known and the image's document says nothing
    else. `beside`: kernels of the same start that run; what joins them is made from what they are made from,
    though a tag has moved since."""
    running: dict[str, set[str]] = {}
    for kernel in beside:
        if kernel.image and kernel.state in LIVE:
            running.setdefault(_image_repository(kernel.image), set()).add(kernel.image)
    return tuple(replace(spec, image=_join_running(context, spec.image, running)) for spec in specs)


def _join_running(context: PlanContext, text: str, running: Mapping[str, set[str]]) -> str:
    there = running.get(_image_repository(text), ()) if text else ()
    return next(iter(there)) if len(there) == 1 else pinned_reference(context, text)


def _image_repository(text: str) -> str:
    try:
        return parse_reference(text).name
    except ValueError:
        return text


def pinned_reference(context: PlanContext, text: str) -> str:
    image, facts = known_image(text, context.desired.repository, context.actual) if text else (None, None)
    if facts is None or not facts.digest or not runs_by_digest(image, facts, context.actual):
        return text
    return str(parse_reference(facts.reference).at(facts.digest))


def runs_by_digest(image: Image | None, facts: ImageFacts, actual: Actual) -> bool:
    """Whether containers are made from the digest that is known. What an older answer said is not the newest,
    which `always` asks for; what nobody fetches may have no digest on its node."""
    asked = image is None or image.spec.pull_policy != "always" or facts.reference in actual.asked
    return _allows_pinning(image) and (asked or (image is not None and image.spec.pin == "digest"))


def _allows_pinning(image: Image | None) -> bool:
    if image is None or image.spec.pin is not None:
        return image is None or image.spec.pin == "digest"
    return image.spec.pull_policy != "never"


def unpinned_notes(context: PlanContext, session: Session) -> tuple[str, ...]:
    """What is said where a digest is wanted and none is known."""
    notes = {}
    for image in _images_to_resolve(session, context.desired.repository, context.actual):
        what = "is to be pinned, and what its tag means is not known"
        why = context.actual.unanswered.get(str(context.desired.repository.images.reference_of(image)), "")
        reason = f" ({why})" if why else ""
        notes[image.identity] = f"{image.identity} {what}{reason}: run `bai images scan`"
    return tuple(notes.values())


def tags_to_resolve(session: Session, repository: Repository, actual: Actual) -> tuple[ImageReference, ...]:
    """The tags of a session whose documents want a digest that is not known."""
    return tuple(
        repository.images.reference_of(image) for image in _images_to_resolve(session, repository, actual)
    )


def may_be_pinned(repository: Repository, reference: ImageReference) -> bool:
    """Whether containers are made from the digest of a tag once it has just been asked for."""
    return _allows_pinning(repository.images.find(str(reference)))


def _images_to_resolve(session: Session, repository: Repository, actual: Actual) -> Iterator[Image]:
    for container in session.spec.containers:
        image, facts = known_image(container.image, repository, actual)
        if image is None or image.spec.pin != "digest" or (facts is not None and facts.digest):
            continue
        if not parse_reference(image.spec.reference).digest:
            yield image


def image_document(context: PlanContext, text: str) -> Image | None:
    """The document of an image, also where its text has become a digest."""
    repository = context.desired.repository
    found = repository.images.find(text)
    if found is not None or "@" not in text:
        return found
    alike = repository.images.by_name.get(_image_repository(text), ())
    return next(
        (i for i in alike if pinned_reference(context, str(repository.images.reference_of(i))) == text), None
    )
