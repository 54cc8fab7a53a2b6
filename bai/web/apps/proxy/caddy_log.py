"""What Caddy says, in lines for people."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

LONGEST = 1000
"""Characters of a line."""
MOST = 30
"""Lines in `PERIOD` seconds."""
PERIOD = 60.0
READY = "serving initial configuration"
_NAMES = ("identifier", "identifiers", "domain", "names", "remaining", "file", "address")
_TOLD = ("tls.obtain", "tls.renew")
"""Whose news are told, and not only what goes wrong."""
_USELESS = (
    "acquiring lock",
    "lock acquired",
    "releasing lock",
    "obtaining certificate",
    "exiting;",
    "admin endpoint",
)


def log_text(line: str) -> str:
    """A line for people; empty where it says nothing that anybody needs."""
    try:
        entry = json.loads(line)
    except ValueError:
        return line.strip()[:LONGEST]
    if not isinstance(entry, dict) or not _matters(entry):
        return ""
    level = str(entry.get("level", ""))
    about = ", ".join(_text(entry[name]) for name in _NAMES if entry.get(name))
    parts = [
        "" if level == "info" else f"{level}: ",
        str(entry.get("msg", "")),
        f" ({about})" if about else "",
    ]
    error = entry.get("error")
    return ("".join(parts) + (f": {_text(error)}" if error else ""))[:LONGEST]


def is_ready(line: str) -> bool:
    return READY in line


def _matters(entry: dict[str, Any]) -> bool:
    if str(entry.get("msg", "")).startswith(_USELESS) or entry.get("level") == "debug":
        return False
    return entry.get("level") != "info" or str(entry.get("logger", "")).startswith(_TOLD)


def _text(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


class ThrottledLines:
    """Passes on so many lines in a time, then how many it left out: nonsense that is asked fills no log."""

    def __init__(self, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._say = say
        self._clock = clock
        self._since = clock()
        self._said = self._left_out = 0

    def __call__(self, line: str) -> None:
        now = self._clock()
        if now - self._since >= PERIOD:
            if self._left_out:
                self._say(f"{self._left_out} more lines were left out")
            self._since, self._said, self._left_out = now, 0, 0
        if self._said < MOST:
            self._said += 1
            self._say(line)
        else:
            self._left_out += 1
