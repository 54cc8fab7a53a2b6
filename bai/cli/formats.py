"""The values of `--format`."""

from __future__ import annotations

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


class PlanFormat(StrEnum):
    """For plans; `markdown` is bounded for a pull request."""

    text = "text"
    json = "json"
    markdown = "markdown"
