"""Notifications that were not sent."""

from __future__ import annotations

from schemas.problems.errors.base import BaiError


class NotifyError(BaiError):
    """{why}"""

    code = "BAI-E0380"


class NotSent(NotifyError):
    """The message was not sent: {why}"""

    code = "BAI-E0381"


class NotSentNow(NotifyError):
    """The message was not sent this time: {why}"""

    code = "BAI-E0382"
    retryable = True
