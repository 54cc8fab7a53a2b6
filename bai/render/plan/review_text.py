"""A Review for a person at a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from bai.render.humanize import clean, short_name
from bai.render.plan import review_sections
from bai.render.plan.terminal import DrawingStyle, Fullness, heading, plan_parts

if TYPE_CHECKING:
    from reconciler.review import Review


def render_review(
    review: Review, look: DrawingStyle | None = None, fullness: Fullness | None = None
) -> RenderableType:
    """The change, then what stands behind it as `bai plan` shows it."""
    title = f"bai plan: cluster {clean(review.plan.cluster)}, {review_sections.commit_range(review)}"
    parts: list[RenderableType] = [Text(title, "bold")]
    if review.disruptions:
        parts += [Text(""), heading("Running sessions that it touches"), _moved_sessions(review)]
    parts += plan_parts(review.plan, review.nodes, look or DrawingStyle(), fullness or Fullness())
    parts += [Text(""), *(Text(note, "yellow") for note in review_sections.review_notes(review))]
    if distrust := review_sections.untrusted_commit_lines(review):
        parts += [
            Text(review_sections.UNTRUSTED_TITLE, "bold red"),
            *(Text(f"  {line}", "red") for line in distrust),
        ]
    parts.append(Text(review_sections.review_headline(review), "bold"))
    parts.append(Text(f"reviewed {review.digest}", "dim"))
    return Group(*parts)


def _moved_sessions(review: Review) -> RenderableType:
    table = Table.grid(padding=(0, 2, 0, 0))
    for place in review.disruptions:
        fate = review_sections.session_outcome(place, review.nodes)
        before = review_sections.placement_text(place.before, review.nodes)
        table.add_row(
            short_name(place.session), place.effect, f"{before} -> {fate}", Text(clean(place.why), "dim")
        )
    return Padding(table, (0, 0, 0, 4))
