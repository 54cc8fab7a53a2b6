"""Plain YAML scalars as values: YAML 1.2's core schema, and a refusal wherever YAML 1.1 reads something else.

`NO`, `on`, `0755` and `12:30` mean one thing to one parser and another thing to the next; a repository that
several tools read must not depend on that, so they are refused with what would be clear.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache

from schemas.problems.text import format_value

Scalar = str | int | float | bool | None

_FIXED: dict[str, Scalar] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_OLD_TRUE = {"yes", "Yes", "YES", "on", "On", "ON"}
_OLD_FALSE = {"no", "No", "NO", "off", "Off", "OFF"}
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)\Z", re.ASCII)
_BASED = re.compile(r"0x[0-9a-fA-F]+\Z|0o[0-7]+\Z", re.ASCII)
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z", re.ASCII)
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)\Z|\.(nan|NaN|NAN)\Z")
_OLD_NUMBER = re.compile(
    r"[-+]?0[0-9_]+\Z|[-+]?0b[01_]+\Z|[-+]?[1-9][0-9_]*(:[0-5]?[0-9])+\Z|[-+]?[0-9][0-9]*_[0-9_]*\Z", re.ASCII
)
_MOST_DIGITS = 30


class ScalarError(ValueError):
    """A plain scalar that is not read; `code` is a `BAI-V…` code."""

    def __init__(self, code: str, message: str, hint: str) -> None:
        self.code, self.message, self.hint = code, message, hint
        super().__init__(message)


@lru_cache(maxsize=16_384)
def parse_scalar(text: str) -> Scalar:
    """The value of an unquoted scalar. Raises ScalarError for NaN, infinity and what parsers read apart."""
    if text in _FIXED:
        return _FIXED[text]
    first = text[0]
    if first.isascii() and (first.isdigit() or first in "+-."):
        return _parse_number(text)
    if text in _OLD_TRUE or text in _OLD_FALSE:
        meant = "true" if text in _OLD_TRUE else "false"
        raise ScalarError(
            "BAI-V012",
            f"{text} is a text to some YAML parsers and {meant} to others",
            f'write "{text}" or {meant}',
        )
    return text


def _parse_number(text: str) -> Scalar:
    if len(text) > _MOST_DIGITS and (_INTEGER.match(text) or _FLOAT.match(text) or _BASED.match(text)):
        raise ScalarError(
            "BAI-V013",
            f"{format_value(text, 20)} is a number beyond any amount",
            "put it into quotes if it is a text",
        )
    if _INTEGER.match(text):
        return int(text)
    if _BASED.match(text):
        return int(text, 0)
    if _OLD_NUMBER.match(text):
        raise ScalarError(
            "BAI-V012",
            f"{format_value(text)} is a text to some YAML parsers and a number to others",
            f'write "{text}"',
        )
    if _NOT_FINITE.match(text):
        raise ScalarError("BAI-V013", f"{text} is not a finite number", "give an amount")
    if _FLOAT.match(text):
        return _parse_finite_float(text)
    return text


def _parse_finite_float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ScalarError("BAI-V013", f"{format_value(text)} is a number beyond any amount", "give an amount")
    return value
