"""What a Review has to say besides its plan, in words; no layout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from bai.render.humanize import clean, join_limited, plural, short_name
from bai.render.plan.placements import kernel_cores, kernel_devices
from bai.render.plan.sections import plan_summary, violation_lines

if TYPE_CHECKING:
    from planner.model.types import NodeInfo, Placement
    from reconciler.review import Disruption, Review

MOST_UNTRUSTED = 20
UNTRUSTED_TITLE = "These commits would not be followed:"


def commit_range(review: Review) -> str:
    """`3f2a9c01d2e4 → 81be0c4d9a10`."""
    base = review.base[:12] or "nothing"
    return f"{base} → {review.head[:12] or 'working files'}"


def review_headline(review: Review) -> str:
    """The plan's summary, with who waits as before."""
    still = (
        f" {plural(len(review.still_waiting), 'session')} as before in the queue."
        if review.still_waiting
        else ""
    )
    return f"{plan_summary(review.plan)}{still}"


def refusal_line(review: Review) -> str:
    """Why `bai apply` would not carry it out, in a line; empty when nothing stands against it."""
    first = next(iter(violation_lines(review.plan)), "")
    more = len(review.plan.violations) - 1
    return f"Refused: {first}{f', and {more} more' if more > 0 else ''}" if first else ""


def untrusted_commit_lines(review: Review) -> list[str]:
    """Why its commits would not be followed, one line each; no more than a reader needs."""
    more = len(review.untrusted_commits) - MOST_UNTRUSTED
    lines = [clean(str(refusal)) for refusal in review.untrusted_commits[:MOST_UNTRUSTED]]
    return [*lines, f"and {more} more"] if more > 0 else lines


def review_notes(review: Review) -> list[str]:
    """What a reader should know of the base and of what was known."""
    found = []
    if not review.plan.complete:
        found.append("Not everything could be observed: nothing is deleted.")
    if review.pending:
        found.append(
            f"The base is not what is carried out ({plural(review.pending, 'action')} apart): what it asks "
            "for is taken as done."
        )
    if review.admitted:
        names = join_limited(map(short_name, review.admitted))
        found.append(f"Waits without this change and runs with it: {names}.")
    return found


def placement_text(placement: Placement | None, nodes: Mapping[str, NodeInfo]) -> str:
    """`gpu-1: gpu 0-3, cores 0-7; gpu-2: ...`."""
    if placement is None:
        return "-"
    parts = []
    for kernel in placement.kernels:
        held = kernel_devices(kernel, nodes.get(kernel.node))
        parts.append(f"{clean(kernel.node)}: {held if held != '-' else f'cores {kernel_cores(kernel)}'}")
    return "; ".join(dict.fromkeys(parts))


def session_outcome(place: Disruption, nodes: Mapping[str, NodeInfo]) -> str:
    """Where a session that moves goes, or what becomes of it."""
    if place.effect == "moved":
        return placement_text(place.after, nodes)
    return "the queue" if place.effect == "pushed out" else ""
