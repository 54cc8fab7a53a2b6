"""Documents as plain values, before they are files. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from schemas.values.names import suggest_name

Document = dict[str, Any]
_LONGEST, _MARK = 63, 8


def document(kind: str, metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> Document:
    return {"apiVersion": "bai/v1", "kind": kind, "metadata": dict(metadata), "spec": dict(spec)}


def safe_name(text: str) -> str:
    """The text where it is a name already; else the nearest one, marked so that another text has another."""
    near = suggest_name(text)
    return near if near == text else marked_name(near, text)


def marked_name(near: str, text: str) -> str:
    """`near` with some digits that follow from `text`."""
    mark = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:_MARK]
    return f"{near[: _LONGEST - _MARK - 1].rstrip('-')}-{mark}".lstrip("-")
