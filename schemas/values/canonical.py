"""One normal form per resource: defaults left out, amounts at their shortest. Equal meaning, equal digest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from schemas.values.envelope import Resource

DIGEST_LENGTH = 16


def canonical_document(resource: Resource) -> dict[str, Any]:
    """The document of a resource as JSON-able values; reading it again gives an equal resource."""
    made: dict[str, Any] = resource.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    made["metadata"] = {key: value for key, value in made["metadata"].items() if value not in (None, {})}
    made.setdefault("spec", {})
    return made


def digest(document: Mapping[str, Any]) -> str:
    """16 hex digits of the SHA-256 of canonical JSON: keys sorted, no white space."""
    return full_digest(document)[:DIGEST_LENGTH]


def full_digest(document: Mapping[str, Any]) -> str:
    """All 64 of them."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
