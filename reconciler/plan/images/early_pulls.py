"""Images that are brought to nodes before any session needs them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from reconciler.plan.context import PlanContext
from reconciler.plan.images.pinning import pinned_reference, runs_by_digest
from reconciler.plan.images.pulls import image_pull, node_architecture
from reconciler.values.changes.cause import Cause, CauseCode
from reconciler.values.documents.pre_pull import pre_pull_nodes
from reconciler.values.plan import Action
from reconciler.values.sides import ImageSide, Pull
from reconciler.values.state import Actual
from schemas.images.facts import ImageFacts
from schemas.images.requirements import image_requirements
from schemas.kinds.image import Image
from schemas.values.image_reference import ImageReference
from schemas.values.resource_ref import ref_of

_SHOWN = 5


def add_early_pulls(context: PlanContext, actions: Iterable[Action]) -> list[Action]:
    """The actions, those of images with the nodes that they are brought to."""
    return [
        _pull_early(context, action) if ref_of(action.id).kind == "Image" else action for action in actions
    ]


def _pull_early(context: PlanContext, action: Action) -> Action:
    image = context.desired.resources.get(action.id)
    if not isinstance(action.after, ImageSide) or context.destroy or not isinstance(image, Image):
        return action
    if context.actual.held is None:
        return _warn_no_pulls(context, action, image)
    pulls = tuple(_missing_pulls(context, image))
    if not pulls:
        return action
    nodes = [pull.node for pull in pulls]
    more = f" and {len(nodes) - _SHOWN} more" if len(nodes) > _SHOWN else ""
    missing = Cause(CauseCode.IMAGE_MISSING, f"not on {', '.join(nodes[:_SHOWN])}{more}")
    after = replace(action.after, document=context.desired.documents[action.id], pulls=pulls)
    before = action.before
    if before is not None and action.verb == "no-op":
        before = replace(before, document=context.actual.existing[action.id].recorded.document)
    return replace(action, before=before, after=after, cause=action.cause or missing)


def _warn_no_pulls(context: PlanContext, action: Action, image: Image) -> Action:
    """The action, with a word about a provider that fetches no images."""
    can = context.actual.capabilities
    if image.spec.pre_pull is None or action.verb == "no-op" or can is None or can.pulls:
        return action
    return replace(action, warnings=(*action.warnings, f"provider {can.name} fetches no images early"))


def _missing_pulls(context: PlanContext, image: Image) -> Iterator[Pull]:
    held = context.actual.held or {}
    reference = context.desired.repository.images.reference_of(image)
    facts = context.actual.images.get(str(reference))
    text = pinned_reference(context, str(reference))
    fits = image_requirements(image.name, image, facts).machines
    for node in pre_pull_nodes(context.desired, image):
        machine = node_architecture(context.nodes.get(node.name))
        busy = context.rollout is not None and node.name in context.rollout.wave
        if busy or node.name not in held or (fits and machine and machine not in fits):
            continue
        names = {name for each in held[node.name] for name in (*each.names, *each.digests)}
        if not _node_has(names, reference, facts, image, context.actual):
            yield image_pull(context, node.name, text, image.spec.pull_policy, machine=machine)


def _node_has(
    names: set[str], reference: ImageReference, facts: ImageFacts | None, image: Image, actual: Actual
) -> bool:
    """Whether a node has the image; for one that follows its tag, the newest that is known."""
    follows = facts is not None and (
        image.spec.pull_policy == "always" or runs_by_digest(image, facts, actual)
    )
    if follows and facts is not None and facts.digest:
        return str(reference.at(facts.digest)) in names
    if reference.digest:
        return str(reference.at(reference.digest)) in names
    return str(reference) in names
