"""Documents that the store recorded, read again as resources. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from pydantic import ValidationError

from reconciler.values.encoding.placement_json import canonical_json
from schemas.kinds.kind_registry import KINDS
from schemas.kinds.session import Session
from schemas.values.resource_ref import ref_of

if TYPE_CHECKING:
    from schemas.values.envelope import Resource


def recorded_resource(identity: str, document: Mapping[str, object]) -> Resource | None:
    """The resource of a recorded document; None when it can no longer be read."""
    model = KINDS.get(ref_of(identity).kind)
    if model is None:
        return None
    try:
        return model.model_validate_json(canonical_json(document))
    except ValidationError:
        return None


def recorded_session(document: Mapping[str, object]) -> Session | None:
    """The session of a recorded document; None when it was written by a version that said things
    differently."""
    return _parse_session(canonical_json(document))


@lru_cache(maxsize=4096)
def _parse_session(text: str) -> Session | None:
    try:
        return Session.model_validate_json(text)
    except ValidationError:
        return None
