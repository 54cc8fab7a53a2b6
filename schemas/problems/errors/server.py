"""A server that runs loops (`bai serve`), as a client meets it."""

from __future__ import annotations

from schemas.problems.errors.base import BaiError


class ServerError(BaiError):
    """The server {server}: {why}"""

    code = "BAI-E0390"


class ServerUnreachable(ServerError):
    """The server {server} does not answer: {why}"""

    code = "BAI-E0391"
    retryable = True


class ServerRefused(ServerError):
    """The server {server} refuses {request}: {why}"""

    code = "BAI-E0392"


class NotOnServer(ServerRefused):
    """{why}"""

    code = "BAI-E0395"


class NotLoggedIn(ServerError):
    """Not logged in to {server}: {why}"""

    code = "BAI-E0393"


class LoginFailed(ServerError):
    """Logging in by {issuer} failed: {why}"""

    code = "BAI-E0394"


class ProviderUnreachable(LoginFailed):
    """The identity provider {issuer} does not answer: {why}"""

    code = "BAI-E0396"
    retryable = True


class TooMuchPlanned(BaiError):
    """Too much is being planned for others just now"""

    code = "BAI-E0397"
    retryable = True
