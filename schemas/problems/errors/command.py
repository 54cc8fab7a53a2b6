"""What was asked of the command and cannot be done."""

from __future__ import annotations

from schemas.problems.errors.base import BaiError


class CommandError(BaiError):
    """{why}"""

    code = "BAI-E0600"


class NoSuchResource(CommandError):
    """There is no {what} named {name}"""

    code = "BAI-E0601"


class AmbiguousName(CommandError):
    """{name} can mean {candidates}"""

    code = "BAI-E0602"


class NotConfirmed(CommandError):
    """Nothing was changed: {why}"""

    code = "BAI-E0603"


class AlreadyThere(CommandError):
    """{path} is already there and is not overwritten"""

    code = "BAI-E0604"
