"""The values of `--format`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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


@dataclass(frozen=True, slots=True)
class PlanView:
    """How a plan is printed as text. `everything`: what tells of each where similar things are told
    together."""

    details: bool = False
    pager: bool = False
    everything: str = "--details"
