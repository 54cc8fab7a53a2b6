"""What kinds of resources there are, and how many of each."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from schemas.values.resource_ref import ref_of

if TYPE_CHECKING:
    from bai.web.pass_view import PassView


def resource_kinds(view: PassView) -> tuple[tuple[str, int], ...]:
    """Kind and count, by kind, of what the viewer may know to be there."""
    known = {*view.desired.digests, *view.actual.existing}
    return tuple(sorted(Counter(ref_of(each).kind for each in known if view.lists(each)).items()))
