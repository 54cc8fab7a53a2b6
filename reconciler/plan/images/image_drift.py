"""Images that mean something else by now than what runs. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.plan.context import PlanContext
from reconciler.plan.images.known_images import known_image
from reconciler.plan.images.pinning import image_document, runs_by_digest
from reconciler.values.plan import Drift
from reconciler.values.records import HOLDING
from reconciler.values.session_phase import LIVE
from reconciler.values.state import Existing
from schemas.images.facts import ImageFacts
from schemas.values.image_reference import parse_reference


def image_drifts(context: PlanContext, existing: Existing) -> Iterator[Drift]:
    """Live kernels whose image's name means something else by now, on their node or in its registry. Nothing
    is done about it: they run on as they are, and whoever wants the other image starts them anew."""
    if existing.phase not in HOLDING:
        return
    for kernel in existing.kernels:
        if kernel.state not in LIVE:
            continue
        image, node = image_document(context, kernel.image), kernel.labels.node
        if kernel.image_now == "gone":
            what = f"runs on, and {node} no longer has its image {kernel.image}"
            yield Drift(existing.id, what, kernel.id)
        elif image is not None and image.spec.pull_policy == "always":
            continue  # Who pulls always moves the tag himself.
        elif kernel.image_now != "same":
            what = f"runs what {kernel.image} was when it started; on {node} the name means another image now"
            yield Drift(existing.id, f"{what}: `--replace` starts it from that", kernel.id)
        elif moved := _moved_tag(context, existing, kernel.image):
            what = f"runs {kernel.image}; {moved.reference} means {moved.digest} now"
            yield Drift(existing.id, f"{what}: `--replace` starts it from that", kernel.id)


def _moved_tag(context: PlanContext, existing: Existing, text: str) -> ImageFacts | None:
    """What the tag means by now from which a kernel's digest came; None where that is the same, or several of
    the session's tags are of that repository."""
    session = context.desired.sessions().get(existing.id)
    if "@" not in text or session is None:
        return None
    try:
        ran = parse_reference(text)
    except ValueError:
        return None  # What a node calls it is no name of an image.
    found = set()
    for container in session.spec.containers:
        image, facts = known_image(container.image, context.desired.repository, context.actual)
        if image is not None and image.spec.pull_policy == "always":
            continue
        if facts is not None and facts.digest and runs_by_digest(image, facts, context.actual):
            reference = parse_reference(facts.reference)
            if reference.name == ran.name and not reference.digest:
                found.add(facts.reference)
    facts = context.actual.images[found.pop()] if len(found) == 1 else None
    return facts if facts is not None and facts.digest != ran.digest else None
