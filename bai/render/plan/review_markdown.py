"""A Review as the comment of a pull request: deterministic, and never longer than a comment may be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bai.render.humanize import clean, plural, short
from bai.render.plan import review_sections
from bai.render.plan.markdown import LIMIT, Block, assembled, code, escape, sections, table_head, table_row
from reconciler.review import Review
from schemas.problems.errors import Problem


def marker(cluster: str) -> str:
    """A line that nobody sees, by which a later run finds its comment again."""
    return f"<!-- bai:review:{clean(cluster)} -->"


def render(review: Review, *, limit: int = LIMIT) -> str:
    """The change as Markdown of at most `limit` characters."""
    return assembled(
        [_title(review), _places(review), *sections(review.plan, review.nodes)],
        limit=limit,
        closing=_closing(review),
    )


def problems_page(problems: Sequence[Problem], cluster: str, *, limit: int = LIMIT) -> str:
    """The comment where the documents cannot be used: every mistake, with its place."""
    found = plural(len(problems), "mistake")
    said = "> ⛔ Nothing can be planned before these are mended."
    title = (marker(cluster), f"## bai: {found} in the documents", "", said, "")
    lines = [(f"- {escape(str(problem))}",) for problem in problems]
    return assembled([[title], lines], limit=limit)


def _title(review: Review) -> Iterator[Block]:
    title = f"## bai: what this change does to {escape(review.plan.cluster)}"
    yield (marker(review.plan.cluster), title, "", f"**{escape(review_sections.headline(review))}**")
    if distrust := review_sections.distrust(review):
        yield ("", f"> ⛔ {review_sections.DISTRUST}", ">", *(f"> - {escape(line)}" for line in distrust))
    for note in review_sections.notes(review):
        yield ("", f"> {escape(note)}")


def _places(review: Review) -> Iterator[Block]:
    if review.places:
        yield table_head("Running sessions that it touches", ("session", "", "from", "to", "why"))
    for place in review.places:
        before = code(review_sections.place_words(place.before, review.nodes))
        after = code(review_sections.fate(place, review.nodes)) or "-"
        cells = (code(short(place.session)), place.effect, before, after, escape(place.why))
        yield (table_row(cells),)


def _closing(review: Review) -> Block:
    complete = "complete" if review.complete else "incomplete"
    return (
        "",
        f"<sub>{escape(review_sections.span(review))} · {complete} · reviewed {code(review.digest)}</sub>",
    )
