"""Problems raised from inside a model: where below itself something is wrong, and what would be right.

Pydantic's own errors carry one place each; `refuse` carries several, with hints.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

Loc = tuple[str | int, ...]
KEY = "[key]"
"""The last step of Pydantic's location of a mapping's key."""


@dataclass(frozen=True, slots=True)
class Issue:
    """One thing wrong below a model, at `at` (keys and indexes); `value` is what stood there."""

    at: Loc
    message: str
    hint: str = ""
    code: str = "BAI-V031"
    value: Any = None
    key: bool = False
    """The key itself is wrong, not what it holds."""


def refuse(issues: Sequence[Issue]) -> PydanticCustomError:
    """The error that a validator raises for these issues."""
    return PydanticCustomError(
        "bai", "{text}", {"text": "; ".join(i.message for i in issues), "issues": tuple(issues)}
    )


def wrong(message: str, hint: str = "", code: str = "BAI-V032") -> PydanticCustomError:
    """The error of one value, at its own place."""
    return refuse([Issue((), message, hint, code)])


def carried(error: ErrorDetails) -> tuple[Issue, ...]:
    """The issues that a `refuse` put into an error record, with full locations; empty for Pydantic's own."""
    if error["type"] != "bai":
        return ()
    issues: Iterable[Issue] = error.get("ctx", {}).get("issues", ())
    above = tuple(step for step in error["loc"] if step != KEY)
    of_key = KEY in error["loc"]
    return tuple(
        replace(i, at=(*above, *i.at), value=i.value if i.at else error.get("input"), key=i.key or of_key)
        for i in issues
    )


def below(error: ValidationError) -> list[Issue]:
    """Every error of a nested validation as issues, to be raised together with others."""
    found: list[Issue] = []
    for record in error.errors(include_url=False):
        found.extend(carried(record) or [from_pydantic(record)])
    return found


def from_pydantic(error: ErrorDetails) -> Issue:
    """One of Pydantic's own errors as an issue, in plain words."""
    from schemas.problems.model_errors import explain

    return explain(error)
