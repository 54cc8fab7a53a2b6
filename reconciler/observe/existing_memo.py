"""What a look puts together, kept for the next one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from schemas.values.memo import Memo

if TYPE_CHECKING:
    from reconciler.values.state import Actual, Existing


class ExistingMemo:
    """What there was of each identity, with the record and the kernels that it was made of; and the whole of
    the last look, with all that this rests on."""

    def __init__(self) -> None:
        self.each: Memo[str, Existing] = Memo()
        self._whole: tuple[tuple[object, ...], Actual] | None = None

    def whole(self, made_of: tuple[object, ...], make: Callable[[], Actual]) -> Actual:
        """What `make` gives, or gave for the same, as `get` of a memo does."""
        known = self._whole
        if known is None or known[0] != made_of:
            known = self._whole = (made_of, make())
        return known[1]
