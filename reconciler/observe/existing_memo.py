"""What a look puts together, kept for the next one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from planner.model.timed_memo import TimedMemo

if TYPE_CHECKING:
    from providers.base import Observed
    from reconciler.values.state import Actual, Existing


class KnownExisting(NamedTuple):
    """A resource with all that it rests on."""

    made_of: tuple[object, ...]
    existing: Existing


class ExistingMemo:
    """What there was of each identity, with the record and the kernels that it was made of; and the whole of
    the last look, with all that this rests on."""

    def __init__(self) -> None:
        self.each: TimedMemo[KnownExisting] = TimedMemo()
        self._kernels: Mapping[str, tuple[Observed, ...]] = {}
        self._whole: tuple[tuple[object, ...], Actual] | None = None

    def kernels(self, seen: Mapping[str, Sequence[Observed]]) -> Mapping[str, tuple[Observed, ...]]:
        """The kernels that were seen of each resource: the same object where they are the same."""
        before, found = self._kernels, {}
        for identity, each in seen.items():
            now, known = tuple(each), before.get(identity)
            found[identity] = known if known is not None and known == now else now
        self._kernels = found
        return found

    def whole(self, made_of: tuple[object, ...], make: Callable[[], Actual]) -> Actual:
        """What `make` gives, or gave for the same, as `get` of a memo does."""
        known = self._whole
        if known is None or known[0] != made_of:
            known = self._whole = (made_of, make())
        return known[1]
