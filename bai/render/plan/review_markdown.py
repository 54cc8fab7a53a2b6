"""A Review as the comment of a pull request: deterministic, and never longer than a comment may be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from bai.render.humanize import clean, plural, short_name
from bai.render.plan import review_sections
from bai.render.plan.markdown import (
    LIMIT,
    Block,
    assemble_page,
    code,
    escape,
    plan_blocks,
    table_head,
    table_row,
)

if TYPE_CHECKING:
    from reconciler.review import Review
    from schemas.problems.problem import Problem


def comment_marker(cluster: str) -> str:
    """A line that nobody sees, by which a later run finds its comment again."""
    return f"<!-- bai:review:{clean(cluster)} -->"


def render_review_markdown(review: Review, *, limit: int = LIMIT) -> str:
    """The change as Markdown of at most `limit` characters."""
    return assemble_page(
        [_title(review), _moved_sessions(review), *plan_blocks(review.plan, review.nodes)],
        limit=limit,
        closing=_closing(review),
    )


def render_problems_markdown(problems: Sequence[Problem], cluster: str, *, limit: int = LIMIT) -> str:
    """The comment where the documents cannot be used: every mistake, with its place."""
    found = plural(len(problems), "mistake")
    said = "> ⛔ Nothing can be planned before these are mended."
    title = (comment_marker(cluster), f"## bai: {found} in the documents", "", said, "")
    lines = [(f"- {escape(str(problem))}",) for problem in problems]
    return assemble_page([[title], lines], limit=limit)


def _title(review: Review) -> Iterator[Block]:
    title = f"## bai: what this change does to {escape(review.plan.cluster)}"
    yield (
        comment_marker(review.plan.cluster),
        title,
        "",
        f"**{escape(review_sections.review_headline(review))}**",
    )
    if distrust := review_sections.untrusted_commit_lines(review):
        yield (
            "",
            f"> ⛔ {review_sections.UNTRUSTED_TITLE}",
            ">",
            *(f"> - {escape(line)}" for line in distrust),
        )
    for note in review_sections.review_notes(review):
        yield ("", f"> {escape(note)}")


def _moved_sessions(review: Review) -> Iterator[Block]:
    if review.disruptions:
        yield table_head("Running sessions that it touches", ("session", "", "from", "to", "why"))
    for place in review.disruptions:
        before = code(review_sections.placement_text(place.before, review.nodes))
        after = code(review_sections.session_outcome(place, review.nodes)) or "-"
        cells = (code(short_name(place.session)), place.effect, before, after, escape(place.why))
        yield (table_row(cells),)


def _closing(review: Review) -> Block:
    complete = "complete" if review.complete else "incomplete"
    commits = escape(review_sections.commit_range(review))
    return ("", f"<sub>{commits} · {complete} · reviewed {code(review.digest)}</sub>")
