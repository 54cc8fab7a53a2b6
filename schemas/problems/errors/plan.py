"""Plans that cannot be made or applied."""

from __future__ import annotations

from schemas.problems.errors.base import BaiError


class PlanError(BaiError):
    """{why}"""

    code = "BAI-E0500"


class StalePlan(PlanError):
    """The plan is stale: {why}"""

    code = "BAI-E0501"


class GuardRefused(PlanError):
    """The plan is refused: {why}"""

    code = "BAI-E0502"


class IncompleteObservation(PlanError):
    """What runs could not be observed completely: {why}"""

    code = "BAI-E0503"
    retryable = True


class SecretMissing(PlanError):
    """The secret {reference} cannot be read: {why}"""

    code = "BAI-E0504"
