"""A Review for a person at a terminal."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from bai.render.humanize import clean, short
from bai.render.plan import review_sections
from bai.render.plan.terminal import Look, body, heading
from reconciler.review import Review


def render(review: Review, look: Look | None = None) -> RenderableType:
    """The change, then what stands behind it as `bai plan` shows it."""
    title = f"bai plan: cluster {clean(review.plan.cluster)}, {review_sections.span(review)}"
    parts: list[RenderableType] = [Text(title, "bold")]
    if review.places:
        parts += [Text(""), heading("Running sessions that it touches"), _places(review)]
    parts += body(review.plan, review.nodes, look or Look())
    parts += [Text(""), *(Text(note, "yellow") for note in review_sections.notes(review))]
    if distrust := review_sections.distrust(review):
        parts += [
            Text(review_sections.DISTRUST, "bold red"),
            *(Text(f"  {line}", "red") for line in distrust),
        ]
    parts.append(Text(review_sections.headline(review), "bold"))
    parts.append(Text(f"reviewed {review.digest}", "dim"))
    return Group(*parts)


def _places(review: Review) -> RenderableType:
    table = Table.grid(padding=(0, 2, 0, 0))
    for place in review.places:
        fate = review_sections.fate(place, review.nodes)
        before = review_sections.place_words(place.before, review.nodes)
        table.add_row(
            short(place.session), place.effect, f"{before} -> {fate}", Text(clean(place.why), "dim")
        )
    return Padding(table, (0, 0, 0, 4))
