"""What a plan is to be about."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """Made of the options of `bai plan` and `bai apply`, and by the loop; a part of the plan request."""

    targets: tuple[str, ...] = ()
    """Identities (`*` allowed) that the plan is about; all when empty."""
    refresh_only: bool = False
    """Whether only what runs is looked at."""
    destroy: bool = False
    """Whether everything is deleted."""
    replace: tuple[str, ...] = ()
    """Sessions (`*` allowed) to stop and start again though nothing changed."""
    most_moves: int = 0
    """Most sessions to be moved to join what is free."""
    without: frozenset[str] = frozenset()
    """Resources to be left as they are."""


WHOLE_PLAN = PlanOptions()
"""Of everything, as the documents say."""
