"""A provider that cannot be used, or cannot do what is asked of it."""

from __future__ import annotations

from schemas.problems.errors.base import BaiError


class ProviderError(BaiError):
    """Provider {provider}: {why}"""

    code = "BAI-E0300"


class ProviderUnavailable(ProviderError):
    """Provider {provider} cannot be reached: {why}"""

    code = "BAI-E0301"
    retryable = True


class UnknownProvider(ProviderError):
    """There is no provider {provider}; known are {known}"""

    code = "BAI-E0304"


class InvalidOption(ProviderError):
    """Provider {provider}, option {option}: {why}"""

    code = "BAI-E0305"


class NotAble(ProviderError):
    """Provider {provider} cannot {what}"""

    code = "BAI-E0320"
