"""A registry of images."""

from __future__ import annotations

from schemas.problems.errors.base import BaiError


class RegistryError(BaiError):
    """Registry {registry}: {why}"""

    code = "BAI-E0330"


class RegistryRefused(RegistryError):
    """Registry {registry} refuses: {why}"""

    code = "BAI-E0331"


class NoSuchImage(RegistryError):
    """Registry {registry} has no {image}"""

    code = "BAI-E0332"


class RegistryUntrusted(RegistryError):
    """Registry {registry} is not believed: {why}"""

    code = "BAI-E0333"


class RegistryUnreachable(RegistryError):
    """Registry {registry} does not answer: {why}"""

    code = "BAI-E0334"
    retryable = True
