"""A Review as JSON, `bai.review/v1`."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from pydantic import TypeAdapter

from reconciler.guards.judge import said
from reconciler.review.values import Place, Review
from reconciler.values.plan_json import plain

VERSION = "bai.review/v1"


def value(review: Review) -> dict[str, Any]:
    """What `dump` writes."""
    found = {
        "version": VERSION,
        "base": review.base,
        "head": review.head,
        "digest": review.digest,
        "complete": review.complete,
        "plan": plain(review.plan),
        "places": TypeAdapter(tuple[Place, ...]).dump_python(review.places, mode="json"),
        "admitted": review.admitted,
        "still": [wait.session for wait in review.still],
        "refused": [said(one) for one in review.plan.violations],
        "pending": review.pending,
    }
    if review.distrusted:
        found["distrusted"] = [asdict(refusal) for refusal in review.distrusted]
    return found


def dump(review: Review) -> str:
    """Keys sorted, ending in a newline: the same review, the same bytes."""
    return json.dumps(value(review), sort_keys=True, indent=1, ensure_ascii=False) + "\n"
