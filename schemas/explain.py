"""Pydantic's error records in plain words, with what would be right."""

from __future__ import annotations

from schemas.issues import Issue


def explain(error):  # type: ignore
    return Issue(tuple(error["loc"]), error["msg"], value=error.get("input"))
