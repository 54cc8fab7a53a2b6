"""What a commit would change, for whoever is about to hold a cluster at it."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from rich.console import Console

from bai.render.nodes.picture_text import ASCII
from bai.render.plan.review_text import render_review
from bai.render.plan.terminal import DrawingStyle
from bai.render.printout import Printout, plain_lines
from reconciler.review.review_json import VERSION, review_value

if TYPE_CHECKING:
    from bai.queries.models import ReviewQuery
    from bai.queries.view import ClusterView


def answer(view: ClusterView, query: ReviewQuery) -> Printout:
    """Raises CannotRead, InvalidRepository, PlanError."""
    found = view.review(query.commit)
    if query.form == "json":
        value = review_value(found)
        return Printout(VERSION, {key: value[key] for key in value if key != "version"})
    page = io.StringIO()
    console = Console(
        file=page, width=query.columns, no_color=True, markup=False, highlight=False, emoji=False
    )
    console.print(render_review(found, DrawingStyle(glyphs=ASCII, bar="=", rest=".")))
    return Printout(blocks=(plain_lines(line.rstrip() for line in page.getvalue().splitlines()),))
