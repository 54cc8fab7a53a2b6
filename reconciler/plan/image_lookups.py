"""What has to be asked before a plan can be judged. Pure.

A first plan shows which images would be started. What its policies and documents have to know of these, and
nobody knows yet, is asked of registries by the workspace, and the plan is made again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from reconciler.guards.judge import EnforcedPolicy
from reconciler.guards.proposed_change import ProposedChange, policy_matches
from reconciler.guards.signers import ImageSigners, applies_to_image, started_images
from reconciler.plan.images.pinning import may_be_pinned, tags_to_resolve
from reconciler.values.plan import Action
from reconciler.values.state import Actual, Desired
from schemas.values.image_reference import ImageReference


@dataclass(frozen=True, slots=True, order=True)
class ImageLookup:
    """What a reference means, where it is a tag, and which of the keys (PEM) have signed that."""

    reference: ImageReference
    keys: tuple[str, ...] = ()


def needed_lookups(
    actions: Iterable[Action], policies: Sequence[EnforcedPolicy], desired: Desired, actual: Actual
) -> tuple[ImageLookup, ...]:
    """What has to be known of the images that these actions start, and is not."""
    known = ImageSigners.of(actual.images)
    found: dict[ImageReference, set[str]] = {}
    for action in actions:
        change = ProposedChange(action)
        images = started_images(action) if action.verb != "no-op" else ()
        if not images or change.session is None:
            continue
        for tag in tags_to_resolve(change.session, desired.repository, actual):
            found.setdefault(tag, set())
        for image in images:
            for keys in _keys_to_verify(change, image, policies, known):
                if image.domain and (image.digest or may_be_pinned(desired.repository, image)):
                    found.setdefault(image, set()).update(keys)
    return tuple(ImageLookup(image, tuple(sorted(keys))) for image, keys in sorted(found.items()))


def _keys_to_verify(
    change: ProposedChange, image: ImageReference, policies: Sequence[EnforcedPolicy], known: ImageSigners
) -> Iterator[tuple[str, ...]]:
    """For each rule that cannot be judged: the keys it is about; none where it only wants the digest."""
    for each in policies:
        spec = each.policy.spec
        rules = spec.guards.images
        if rules is None or not policy_matches(spec.match, change.id, change.before, change.after):
            continue
        if rules.digest and not image.digest:
            yield ()
        for rule in rules.signatures:
            if applies_to_image(rule, image) and not known.signed_by(image.digest, rule.keys):
                yield rule.keys
