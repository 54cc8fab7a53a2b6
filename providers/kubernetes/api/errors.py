"""What the API server refuses, and what that means for who asked."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator

from providers.http_requests import innermost_reason
from providers.kubernetes.api.credentials import NAME
from schemas.problems.errors.kernel import KernelNotFound, KernelRefused
from schemas.problems.errors.provider import ProviderError, ProviderUnavailable

NOT_FOUND, CONFLICT, GONE = 404, 409, 410
UNAUTHORIZED, FORBIDDEN = 401, 403
_PASSING = frozenset({408, 409, 429, 500, 502, 503, 504})
"""Statuses that the same request may not get a moment later."""
_ADMISSION = (
    ("exceeded quota:", "the next plan counts what the quota has left, and waits for it"),
    ("failed quota:", "say in the session what the quota has pods name"),
    ("PodSecurity", "the namespace's label pod-security.kubernetes.io/enforce says what it admits"),
    ("no PriorityClass ", "`kubectl get priorityclasses` has those that kubernetes.priorityClass may name"),
    (" usage per ", "`kubectl describe limitrange` in its namespace has the bounds of one pod"),
)
"""What is in a refusal of admission, which is forbidden (403) as is what we may not do → what to do."""


class ApiRefusal(Exception):
    """An answer that is no success: its status, the reason's word (`AlreadyExists`), and the message."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message


def refusal_of(status: int, body: bytes) -> ApiRefusal:
    """From the answer, which is a `Status` where the API server itself made it."""
    text = body.decode(errors="replace").strip()
    try:
        said = json.loads(text)
        return ApiRefusal(status, str(said.get("reason") or ""), str(said.get("message") or text)[:2000])
    except (ValueError, AttributeError):
        return ApiRefusal(status, "", text[:300] or f"HTTP status {status}")


@contextlib.contextmanager
def api_errors(kernel: str = "", *, making: bool = False) -> Iterator[None]:
    """Refusals and broken connections inside become errors of the provider; `making`: what is refused for
    good is why this kernel cannot be created."""
    try:
        yield
    except ApiRefusal as refusal:
        raise _meaning(refusal, kernel, making=making) from None
    except OSError as error:
        raise ProviderUnavailable(provider=NAME, why=f"the API server: {innermost_reason(error)}") from None


def _meaning(refusal: ApiRefusal, kernel: str, *, making: bool) -> ProviderError:
    said = refusal.message
    if refusal.status in _PASSING:
        return ProviderUnavailable(provider=NAME, why=said)
    if refusal.status == UNAUTHORIZED:
        return ProviderUnavailable(provider=NAME, why="the API server does not know who we are (401)")
    remedy = next((hint for part, hint in _ADMISSION if part in said), "")
    if refusal.status == FORBIDDEN and not remedy:
        hint = "docs/kubernetes.md has the permissions that bai needs"
        return ProviderError(provider=NAME, why=said, hint=hint)
    if kernel and making:
        return KernelRefused(provider=NAME, kernel=kernel, why=said, hint=remedy)
    if kernel and refusal.status == NOT_FOUND:
        return KernelNotFound(provider=NAME, kernel=kernel)
    return ProviderError(provider=NAME, why=said, hint=remedy)
