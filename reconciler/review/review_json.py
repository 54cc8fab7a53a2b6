"""A Review as JSON, `bai.review/v1`."""

from __future__ import annotations

import functools
import json
from dataclasses import asdict
from typing import Any

from pydantic import TypeAdapter

from reconciler.guards.judge import violation_text
from reconciler.review.values import Disruption, Review
from reconciler.values.encoding.plan_json import plan_values

VERSION = "bai.review/v1"


@functools.cache
def _adapter() -> TypeAdapter[tuple[Disruption, ...]]:
    return TypeAdapter(tuple[Disruption, ...])


def review_value(review: Review) -> dict[str, Any]:
    """What `dump_review` writes."""
    found = {
        "version": VERSION,
        "base": review.base,
        "head": review.head,
        "digest": review.digest,
        "complete": review.complete,
        "plan": plan_values(review.plan),
        "places": _adapter().dump_python(review.disruptions, mode="json"),
        "admitted": review.admitted,
        "still": [wait.session for wait in review.still_waiting],
        "refused": [violation_text(one) for one in review.plan.violations],
        "pending": review.pending,
    }
    if review.untrusted_commits:
        found["distrusted"] = [asdict(refusal) for refusal in review.untrusted_commits]
    return found


def dump_review(review: Review) -> str:
    """Keys sorted, ending in a newline: the same review, the same bytes."""
    return json.dumps(review_value(review), sort_keys=True, indent=1, ensure_ascii=False) + "\n"
