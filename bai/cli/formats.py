"""The values of `--format`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bai.queries.models import Form


class Format(StrEnum):
    """For one value: prose or JSON."""

    text = "text"
    json = "json"


class ListFormat(StrEnum):
    """For lists; `wide` has more columns."""

    table = "table"
    wide = "wide"
    json = "json"


class ReportFormat(StrEnum):
    """For figures; `wide` has more columns."""

    table = "table"
    wide = "wide"
    json = "json"
    csv = "csv"


class PlanFormat(StrEnum):
    """For plans; `markdown` is bounded for a pull request."""

    text = "text"
    json = "json"
    markdown = "markdown"


def form_of(format: Format | ListFormat | PlanFormat | ReportFormat) -> Form:
    """In which form an answer is asked for; Markdown is made of the one for text, CSV of JSON."""
    match format.value:
        case "csv":
            return "json"
        case "json" | "wide" as same:
            return same
        case _:
            return "text"


@dataclass(frozen=True, slots=True)
class PlanView:
    """How a plan is printed as text. `everything`: what tells of each where similar things are told
    together."""

    details: bool = False
    pager: bool = False
    everything: str = "--details"
