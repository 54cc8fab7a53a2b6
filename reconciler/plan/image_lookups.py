"""What has to be asked before a plan can be judged. Pure.

A first plan shows which images would be started. What its policies and documents have to know of these, and
nobody knows yet, is asked (`inquiry.py`), and the plan is made again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from reconciler.guards.candidate import Candidate, matches
from reconciler.guards.judge import Enforced
from reconciler.guards.signers import Signers, about, started
from reconciler.plan.images import pinnable, to_be_pinned
from reconciler.values.plan import Action
from reconciler.values.state import Actual, Desired
from schemas.values.image_reference import ImageReference


@dataclass(frozen=True, slots=True, order=True)
class Question:
    """What a reference means, where it is a tag, and which of the keys (PEM) have signed that."""

    reference: ImageReference
    keys: tuple[str, ...] = ()


def questions(
    actions: Iterable[Action], policies: Sequence[Enforced], desired: Desired, actual: Actual
) -> tuple[Question, ...]:
    """What has to be known of the images that these actions start, and is not."""
    known = Signers.of(actual.images)
    found: dict[ImageReference, set[str]] = {}
    for action in actions:
        change = Candidate(action)
        images = started(action) if action.verb != "no-op" else ()
        if not images or change.session is None:
            continue
        for tag in to_be_pinned(change.session, desired.repository, actual):
            found.setdefault(tag, set())
        for image in images:
            for keys in _wanted(change, image, policies, known):
                if image.domain and (image.digest or pinnable(desired.repository, image)):
                    found.setdefault(image, set()).update(keys)
    return tuple(Question(image, tuple(sorted(keys))) for image, keys in sorted(found.items()))


def _wanted(
    change: Candidate, image: ImageReference, policies: Sequence[Enforced], known: Signers
) -> Iterator[tuple[str, ...]]:
    """For each rule that cannot be judged: the keys it is about; none where it only wants the digest."""
    for each in policies:
        spec = each.policy.spec
        rules = spec.guards.images
        if rules is None or not matches(spec.match, change.id, change.before, change.after):
            continue
        if rules.digest and not image.digest:
            yield ()
        for rule in rules.signatures:
            if about(rule, image) and not known.signed_by(image.digest, rule.keys):
                yield rule.keys
