"""What a session's images ask of it and of its nodes. Pure."""

from __future__ import annotations

from planner.model.types import Reason
from reconciler.plan.images.known_images import known_image
from reconciler.values.state import Actual, Desired
from schemas.images.requirements import image_requirements
from schemas.kinds.session import Session


def image_obstacle(session: Session, desired: Desired, actual: Actual) -> Reason | None:
    """Why a session cannot have the amounts it asks for with its images; None when it can."""
    for container in session.spec.containers:
        if not container.image:
            continue
        asked = image_requirements(container.image, *known_image(container.image, desired.repository, actual))
        for why in asked.refusals(container.resources.slots):
            return Reason("image", f"{container.name} {why}")
    return None


def common_architectures(
    session: Session, desired: Desired, actual: Actual, there: frozenset[str]
) -> frozenset[str]:
    """The architectures that all its images run on, as Linux names them; empty where that tells no node from
    another. `there`: those of the nodes."""
    names = {container.image for container in session.spec.containers if container.image}
    asked = [
        image_requirements(name, *known_image(name, desired.repository, actual)).machines
        for name in sorted(names)
    ]
    known = [each for each in asked if each]
    common = frozenset.intersection(*known) if known else frozenset()
    return frozenset() if there <= common else common
