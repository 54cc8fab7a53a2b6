"""The git remote that documents come from, and whether a commit is to be trusted."""

from __future__ import annotations

from schemas.problems.errors.base import BaiError


class RemoteError(BaiError):
    """The remote {remote}: {why}"""

    code = "BAI-E0370"


class RemoteUnreachable(RemoteError):
    """The remote {remote} cannot be fetched: {why}"""

    code = "BAI-E0371"
    retryable = True


class NoSuchRevision(RemoteError):
    """The remote {remote} has no {revision}"""

    code = "BAI-E0372"
    retryable = True


class HistoryRewritten(RemoteError):
    """{revision} of {remote} does not rest on the commit that is carried out: its history was rewritten"""

    code = "BAI-E0373"


class NotPushed(RemoteError):
    """Nothing was committed or pushed, {remote} says: {why}"""

    code = "BAI-E0374"


class NotTrusted(BaiError):
    """Commit {revision} is not followed: {why}"""

    code = "BAI-E0375"


class StaleProposal(RemoteError):
    """{path} has changed since this change was begun"""

    code = "BAI-E0376"

    def __init__(self, *, path: str) -> None:
        super().__init__(path=path, hint="look at what is there now, and make the change again")
