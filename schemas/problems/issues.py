"""Problems raised from inside a model: where below itself something is wrong, and what would be right.

Pydantic's own errors carry one place each; `issues_error` carries several, with hints.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic_core import ErrorDetails, PydanticCustomError

Loc = tuple[str | int, ...]
KEY_STEP = "[key]"
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
    type: str = ""
    """Pydantic's type of the error (`string_type`, `too_short`, ...); empty for one of bai's own."""


def issues_error(issues: Sequence[Issue]) -> PydanticCustomError:
    """The error that a validator raises for these issues."""
    return PydanticCustomError(
        "bai", "{text}", {"text": "; ".join(i.message for i in issues), "issues": tuple(issues)}
    )


def value_error(message: str, hint: str = "", code: str = "BAI-V032") -> PydanticCustomError:
    """The error of one value, at its own place."""
    return issues_error([Issue((), message, hint, code)])


def attached_issues(error: ErrorDetails) -> tuple[Issue, ...]:
    """The issues that `issues_error` put into an error record, with full locations; empty for Pydantic's
    own."""
    if error["type"] != "bai":
        return ()
    issues: Iterable[Issue] = error.get("ctx", {}).get("issues", ())
    above = tuple(step for step in error["loc"] if step != KEY_STEP)
    of_key = KEY_STEP in error["loc"]
    return tuple(
        replace(i, at=(*above, *i.at), value=i.value if i.at else error.get("input"), key=i.key or of_key)
        for i in issues
    )
