"""The store, and the lease on a cluster that it keeps."""

from __future__ import annotations

from schemas.problems.errors.base import BaiError


class StoreError(BaiError):
    """The store {store} cannot be used: {why}"""

    code = "BAI-E0400"


class StoreUnavailable(StoreError):
    """The store {store} cannot be used now: {why}"""

    code = "BAI-E0403"
    retryable = True


class StoreMoved(StoreError):
    """The store {store} is no longer used: its contents were moved to {target}"""

    code = "BAI-E0404"


class LeaseHeld(StoreError):
    """{holder} holds the lease on cluster {cluster} until {until}"""

    code = "BAI-E0401"
    retryable = True


class LeaseLost(StoreError):
    """The lease on cluster {cluster} with fencing token {token} was taken over; nothing more was written"""

    code = "BAI-E0402"
