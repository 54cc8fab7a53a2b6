"""What a Review has to say besides its plan, in words; no layout."""

from __future__ import annotations

from collections.abc import Mapping

from bai.render.humanize import clean, listed, plural, short
from bai.render.plan.sections import cores, devices, refusals, summary
from planner.model.types import NodeInfo, Placement
from reconciler.review import Place, Review

MOST_DISTRUSTED = 20
DISTRUST = "These commits would not be followed:"


def span(review: Review) -> str:
    """`3f2a9c01d2e4 → 81be0c4d9a10`."""
    base = review.base[:12] or "nothing"
    return f"{base} → {review.head[:12] or 'working files'}"


def headline(review: Review) -> str:
    """The plan's summary, with who waits as before."""
    still = f" {plural(len(review.still), 'session')} as before in the queue." if review.still else ""
    return f"{summary(review.plan)}{still}"


def refusal(review: Review) -> str:
    """Why `bai apply` would not carry it out, in a line; empty when nothing stands against it."""
    first = next(iter(refusals(review.plan)), "")
    more = len(review.plan.violations) - 1
    return f"Refused: {first}{f', and {more} more' if more > 0 else ''}" if first else ""


def distrust(review: Review) -> list[str]:
    """Why its commits would not be followed, one line each; no more than a reader needs."""
    more = len(review.distrusted) - MOST_DISTRUSTED
    lines = [clean(str(refusal)) for refusal in review.distrusted[:MOST_DISTRUSTED]]
    return [*lines, f"and {more} more"] if more > 0 else lines


def notes(review: Review) -> list[str]:
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
        names = listed(map(short, review.admitted))
        found.append(f"Waits without this change and runs with it: {names}.")
    return found


def place_words(placement: Placement | None, nodes: Mapping[str, NodeInfo]) -> str:
    """`gpu-1: gpu 0-3, cores 0-7; gpu-2: ...`."""
    if placement is None:
        return "-"
    parts = []
    for kernel in placement.kernels:
        held = devices(kernel, nodes.get(kernel.node))
        parts.append(f"{clean(kernel.node)}: {held if held != '-' else f'cores {cores(kernel)}'}")
    return "; ".join(dict.fromkeys(parts))


def fate(place: Place, nodes: Mapping[str, NodeInfo]) -> str:
    """Where a session that moves goes, or what becomes of it."""
    if place.effect == "moved":
        return place_words(place.after, nodes)
    return "the queue" if place.effect == "pushed out" else ""
