"""What keeps a loop from going on, beside answers that it would explain."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reconciler.gitops.directives import Directives


def hold_notes(directives: Directives | None) -> tuple[str, ...]:
    """Said when the loop is suspended or held, so that nobody wonders why nothing happens. None: there is no
    store."""
    if directives is None:  # Who has none does not load what reads one.
        return ()
    from bai.render.resources.loop_status import hold_lines

    return tuple(f"note: {line}" for line in hold_lines(directives))
