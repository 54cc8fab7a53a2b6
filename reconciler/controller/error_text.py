"""What goes wrong in a pass, in words for its log."""

from __future__ import annotations

from schemas.problems import disk_space
from schemas.problems.errors.base import BaiError
from schemas.problems.errors.repository import InvalidRepository
from schemas.problems.errors.store import StoreError


def os_error_text(error: OSError) -> str:
    text = (error.strerror or str(error)).lower()
    if not error.filename:
        return text
    full = f": {disk_space.describe_free_space(error.filename)}" if disk_space.is_disk_full(error) else ""
    return f"{error.filename}: {text}{full}"


def error_text(error: BaiError) -> str:
    if isinstance(error, InvalidRepository):
        shown = "; ".join(map(str, error.problems[:3]))
        return f"the documents cannot be used, nothing is changed until they can: {shown}"
    if isinstance(error, StoreError) and error.retryable:
        return f"{error.message}; tried again"
    return str(error)
