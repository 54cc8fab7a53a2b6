"""Small helpers for messages: what somebody probably meant, and values shown shortly."""

from __future__ import annotations

import difflib
import heapq
import re
from collections.abc import Iterable

_MANY = 32
_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff]")


def printable(text: str) -> str:
    """The text with control and invisible characters escaped: a message never drives a terminal."""
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def format_value(value: object, width: int = 60) -> str:
    """A value as it may stand in a message: quoted when a string, cut when long."""
    if isinstance(value, str):
        value = value if len(value) <= width else value[: width - 1] + "…"
        return "'" + printable(value) + "'"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, int) and abs(value) > 10**width:
        return "a huge number"
    return printable(str(value))[:width]


def _close_candidates(word: str, words: list[str]) -> list[str]:
    """Those worth comparing letter by letter, when there are many: those that share beginning and end."""
    if len(words) <= _MANY:
        return words
    half = len(word) // 2
    scored = ((other[:3] == word[:3]) + 2 * (other[-half:] == word[-half:]) for other in words)
    best = heapq.nlargest(_MANY, zip(scored, words, strict=True))
    return [other for score, other in best if score]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`did you mean 'x'?`, or the known words when they are few, or nothing."""
    words = sorted(set(known))
    folded = {other.casefold(): other for other in words}
    short = word[:100].casefold()
    near = difflib.get_close_matches(short, _close_candidates(short, list(folded)), n=1, cutoff=0.6)
    if near:
        return f"did you mean '{printable(folded[near[0]])}'?"
    if 0 < len(words) <= 12:
        return "known are " + ", ".join(printable(other) for other in words)
    return ""
