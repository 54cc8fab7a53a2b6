"""String literals of CEL."""

from __future__ import annotations

import re

_ESCAPE = re.compile(
    r"\\(?:[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.?))", re.S
)
_LETTERS = dict(zip("abfnrtv\\?\"'`", "\a\b\f\n\r\t\v\\?\"'`", strict=True))


def unquote(token: str) -> str:
    """What a string literal stands for. Raises ValueError, with why."""
    raw = token[0] in "rR"
    body = token[1:] if raw else token
    quotes = 3 if body[:3] in ('"""', "'''") else 1
    body = body[quotes:-quotes]
    return body if raw else _ESCAPE.sub(_unescape, body)


def _unescape(found: re.Match[str]) -> str:
    *numbers, letter = found.groups()
    if letter is not None:
        if letter not in _LETTERS:
            raise ValueError("a backslash stands before something that it is not for")
        return _LETTERS[letter]
    octal = numbers.pop()
    code = int(octal, 8) if octal else int(next(filter(None, numbers)), 16)
    if code > 0x10FFFF or 0xD800 <= code < 0xE000:
        raise ValueError("an escape names no character")
    return chr(code)
