"""JSON that somebody else wrote."""

from __future__ import annotations

import json
from typing import Any, NoReturn


def parse(content: str | bytes) -> Any:
    """Its value. Raises ValueError for whatever is no JSON (RFC 8259), nested too deeply to be read, or holds
    text that cannot be written again as UTF-8."""
    text = content if isinstance(content, str) else content.decode("utf-8-sig")
    try:
        value = json.loads(text, parse_constant=_constant)
        if "\\ud" in text.lower():
            json.dumps(value, ensure_ascii=False).encode()  # Half a pair of surrogates is a ValueError here.
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return value


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")
