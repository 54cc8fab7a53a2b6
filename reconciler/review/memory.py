"""What one review of a cluster leaves for the next one: what has not changed is not put together or planned
anew."""

from __future__ import annotations

from reconciler.observe.existing_memo import ExistingMemo
from reconciler.plan.plan_cache import StudyCache


class ReviewMemory:
    """Of one cluster. Each part is found by all that it was made of, so that nothing is stale. Threads may
    share it."""

    def __init__(self) -> None:
        self.existing = ExistingMemo()
        """Resources as they are recorded, and as the base leaves them: what was worked out of one that is the
        same in both is known in the second plan."""
        self.base = StudyCache()
        """What the documents in force still ask for."""
