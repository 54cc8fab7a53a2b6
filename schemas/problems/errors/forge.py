"""The forge where pull requests are talked about: GitHub, GitLab and their like."""

from __future__ import annotations

from schemas.problems.errors.base import BaiError


class ForgeError(BaiError):
    """The forge {forge}: {why}"""

    code = "BAI-E0360"


class ForgeUnknown(ForgeError):
    """No pull request to talk to: {why}"""

    code = "BAI-E0361"


class ForgeRefused(ForgeError):
    """The forge {forge} refuses {request}: {why}"""

    code = "BAI-E0362"


class ForgeUnreachable(ForgeError):
    """The forge {forge} does not answer: {why}"""

    code = "BAI-E0363"
    retryable = True
