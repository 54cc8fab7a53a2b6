"""What lies between a commit and the documents, on stdout or in a file, in the format asked for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bai.cli.formats import PlanFormat, PlanView
from bai.settings import Settings

if TYPE_CHECKING:
    from reconciler.review import Review


def show_review(settings: Settings, review: Review, format: PlanFormat, view: PlanView) -> None:
    """Print it; text and Markdown draw the nodes whose hardware is known."""
    from bai.cli.output import drawing_style, write_document
    from bai.cli.pager import print_paged

    if format is PlanFormat.json:
        from reconciler.review.review_json import dump_review

        write_document(dump_review(review))
        return
    if format is PlanFormat.markdown:
        from bai.render.plan.review_markdown import render_review_markdown as markdown

        write_document(markdown(review))
        return
    from bai.render.plan.review_text import render_review
    from bai.render.plan.terminal import Fullness

    fullness = Fullness(view.details, view.everything)
    print_paged(settings, render_review(review, drawing_style(), fullness), pager=view.pager)


def save_review(review: Review, path: Path) -> None:
    """Write the whole of it, for a page that shows only what fits; readable by its owner alone."""
    from reconciler.review.review_json import dump_review
    from schemas.files.atomic_files import write_atomically

    write_atomically(path, dump_review(review), mode=0o600)
