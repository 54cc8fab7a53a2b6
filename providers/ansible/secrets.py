"""Secret values: taken out of everything that is told or kept."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

HIDDEN = "********"
_SHORTEST = 4
"""Characters of a line of a longer secret that is hidden by itself; what is shorter is everywhere."""


class Mask:
    """Hides secrets, the single lines of longer ones, and the forms they have inside of JSON."""

    def __init__(self, values: Iterable[str]) -> None:
        words: set[str] = set()
        for value in values:
            parts = {
                value,
                *(line.strip() for line in value.splitlines() if len(line.strip()) > 2 * _SHORTEST),
            }
            for part in parts:
                words |= {part, json.dumps(part)[1:-1], json.dumps(part, ensure_ascii=False)[1:-1]}
        self._words = sorted((word for word in words if len(word) >= _SHORTEST), key=len, reverse=True)

    def __bool__(self) -> bool:
        return bool(self._words)

    def text(self, text: str) -> str:
        for word in self._words:
            text = text.replace(word, HIDDEN)
        return text

    def data(self, value: Any) -> Any:
        """A JSON value with all its texts masked; names of fields stay."""
        if not self._words:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {name: self.data(each) for name, each in value.items()}
        if isinstance(value, list | tuple):
            return [self.data(each) for each in value]
        return value
