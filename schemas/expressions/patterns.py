"""Patterns of `matches`: RE2's kind, matched by Rust's engine, in time proportional to the text."""

from __future__ import annotations

import re
from collections.abc import Callable

from pydantic_core import SchemaError, SchemaValidator, ValidationError, core_schema

LARGEST = 1_000
"""Of the patterns of an expression, together, as `pattern_weight` has it: they take 15 MiB at most."""
_REPEATED = re.compile(r"([)}*+?]?)\s*\{\s*([0-9]*)\s*,?\s*([0-9]*)")
_SPACED = re.compile(r"\(\?[a-zA-Z-]*x")


def pattern_weight(pattern: str) -> int:
    """About how many states its automaton has, rather too many: what is repeated so many times counts as
    often, and groups in groups multiply."""
    added, multiplied = len(pattern), 1
    for before, least, most in _REPEATED.findall(pattern):
        times = max(int(number[:9]) if number else 1 for number in (least, most))
        if before:
            multiplied *= max(1, times)
        else:
            added += times
    return added * multiplied


def compile_pattern(pattern: str) -> Callable[[str], bool]:
    """Whether a text holds something that matches. Raises ValueError, with why."""
    if pattern_weight(pattern) > LARGEST:
        raise ValueError("the pattern is too long, or repeats too much")
    if _SPACED.search(pattern):
        raise ValueError("a pattern has no flag x here")
    try:
        engine = SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))
    except SchemaError:
        raise ValueError("this is not a regular expression") from None

    def matches(text: str) -> bool:
        try:
            engine.validate_python(text)
        except ValidationError:
            return False
        return True

    return matches
