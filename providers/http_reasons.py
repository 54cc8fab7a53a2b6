"""What is at the bottom of a request that failed."""

from __future__ import annotations


def innermost_reason(error: BaseException) -> str:
    """The innermost cause in words: what libraries wrap around it helps nobody."""
    seen: BaseException | None = error
    text = str(error)
    while seen is not None:
        inner = getattr(seen, "reason", None)
        inner = (
            inner
            if isinstance(inner, BaseException)
            else next((arg for arg in seen.args if isinstance(arg, BaseException)), seen.__cause__)
        )
        if inner is None:
            text = str(getattr(seen, "strerror", "") or seen) or type(seen).__name__
        seen = inner
    return text.rpartition(">: ")[2][:300]
