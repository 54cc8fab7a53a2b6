"""JSON that somebody else wrote."""

from __future__ import annotations

import json
from typing import Any, NoReturn


def parse_json(content: str | bytes, *, unique: bool = False) -> Any:
    """Its value. Raises ValueError for whatever is no JSON (RFC 8259), nested too deeply to be read, or holds
    text that cannot be written again as UTF-8; with `unique`, also where an object has a name twice, which
    one reader takes for the first of them and another for the last."""
    text = content if isinstance(content, str) else content.decode("utf-8-sig")
    try:
        value = json.loads(
            text, parse_constant=_refuse_constant, object_pairs_hook=_unique_keys if unique else None
        )
        if "\\ud" in text.lower():
            json.dumps(value, ensure_ascii=False).encode()  # Half a pair of surrogates is a ValueError here.
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return value


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("it has a name twice")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")
