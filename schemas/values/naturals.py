"""Whole numbers in what others wrote. Standard library only."""

from __future__ import annotations

import re

LARGEST = 2**63 - 1
_DIGITS = re.compile("[0-9]+")
_LONGEST = 19
"""Digits of the largest number."""


def parse_natural(text: str | bytes, most: int = LARGEST) -> int | None:
    """The number that ASCII digits write; None for anything else, or one above `most`. Python itself calls
    `²` a digit, and refuses to read thousands of them."""
    word = text.decode("latin-1") if isinstance(text, bytes) else text
    if not _DIGITS.fullmatch(word):
        return None
    word = word.lstrip("0") or "0"  # many zeros are none: whoever starts containers reads them so, too
    found = int(word) if len(word) <= _LONGEST else most + 1
    return found if found <= most else None
