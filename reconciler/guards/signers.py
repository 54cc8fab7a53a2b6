"""Who has signed which image, as far as is known. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from schemas.values.image_reference import ImageReference, parse_reference
from schemas.values.public_keys import parse_public_key

if TYPE_CHECKING:
    from reconciler.values.plan import Action
    from schemas.images.facts import ImageFacts
    from schemas.kinds.policy import Policy, Signatures


@dataclass(frozen=True, slots=True)
class ImageSigners:
    """What is known of signatures. `unanswered`: reference by digest → why it is not more."""

    by_digest: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Fingerprints of keys, by what they have signed."""
    unanswered: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls, images: Mapping[str, ImageFacts], unanswered: Mapping[str, str] | None = None
    ) -> ImageSigners:
        """From what is remembered of images."""
        found: dict[str, frozenset[str]] = {}
        for facts in images.values():
            if facts.signers:
                found[facts.digest] = found.get(facts.digest, frozenset()) | set(facts.signers)
        return cls(found, unanswered or {})

    def signed_by(self, digest: str, keys: Iterable[str]) -> bool:
        """Whether one of the keys (PEM) is known to have signed this very image."""
        signers = self.by_digest.get(digest, frozenset())
        return bool(signers) and any(parse_public_key(key).fingerprint in signers for key in keys)


def applies_to_image(rule: Signatures, image: ImageReference) -> bool:
    """Whether an image is to have these signatures."""
    return not rule.images or any(fnmatchcase(image.name, one) for one in rule.images)


def reference_or_name(text: str) -> ImageReference:
    """What is no reference, which providers of native processes do not mind, is itself."""
    try:
        return parse_reference(text)
    except ValueError:
        return ImageReference("", text)


def started_images(action: Action) -> tuple[ImageReference, ...]:
    """The images that its kernels are created from."""
    specs = action.session_after.specs if action.session_after else ()
    return tuple(sorted({reference_or_name(spec.image) for spec in specs if spec.image}))


def require_signatures(policies: Iterable[Policy]) -> bool:
    """Whether signatures have to be known to judge by these."""
    rules = (policy.spec.guards.images for policy in policies)
    return any(one is not None and one.signatures for one in rules)
