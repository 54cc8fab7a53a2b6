"""What requests by the library `requests` have in common here."""

from __future__ import annotations

from requests import PreparedRequest


def no_netrc_login(request: PreparedRequest) -> PreparedRequest:
    """An `auth` that adds nothing: without one, requests looks into ~/.netrc."""
    return request


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
