"""One kernel: its container or process, and what goes in and out of it."""

from __future__ import annotations

from schemas.problems.errors.provider import ProviderError


class KernelRefused(ProviderError):
    """Provider {provider} cannot create kernel {kernel}: {why}"""

    code = "BAI-E0302"


class KernelNotFound(ProviderError):
    """Provider {provider} has no kernel {kernel}"""

    code = "BAI-E0303"


class NotRunning(ProviderError):
    """Kernel {kernel} does not run"""

    code = "BAI-E0321"


class NoTerminal(ProviderError):
    """Kernel {kernel} has no terminal"""

    code = "BAI-E0324"


class CopyRefused(ProviderError):
    """Cannot copy {path} of kernel {kernel}: {why}"""

    code = "BAI-E0322"


class PortRefused(ProviderError):
    """Port {port} of kernel {kernel} cannot be reached: {why}"""

    code = "BAI-E0323"
    retryable = True


class FilesRefused(ProviderError):
    """Cannot look at {path} of kernel {kernel}: {why}"""

    code = "BAI-E0325"
