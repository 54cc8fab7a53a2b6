"""Times as the API has them."""

from __future__ import annotations

from datetime import datetime
from typing import Any


def parse_time(text: Any) -> datetime | None:
    """None for what is none."""
    try:
        return datetime.fromisoformat(str(text)) if text else None
    except ValueError:
        return None
