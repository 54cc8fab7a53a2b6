"""Which sessions are listed, and in which order: choices as values, and pure functions over rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar, get_args

from bai.render.humanize import clean
from bai.render.resources.status import UNAPPLIED
from reconciler.values.records import Phase
from schemas.problems.errors.command import CommandError
from schemas.values.resource_ref import ref_of

PHASES: tuple[str, ...] = (*(phase for phase in get_args(Phase) if phase), UNAPPLIED)


class Sortable(Protocol):
    """A session as rows and facts have it (`bai.render.resources.status`)."""

    @property
    def id(self) -> str: ...

    @property
    def phase(self) -> str: ...

    @property
    def seconds(self) -> float | None: ...

    @property
    def gpu_milli(self) -> int: ...


S = TypeVar("S", bound=Sortable)
_ORDERS: Mapping[str, Callable[[Sortable], tuple[object, ...]]] = {
    "name": lambda row: (row.id,),
    "age": lambda row: (row.seconds is None, row.seconds or 0.0, row.id),
    "phase": lambda row: (PHASES.index(row.phase) if row.phase in PHASES else len(PHASES), row.id),
    "project": lambda row: (ref_of(row.id).project, row.id),
    "gpus": lambda row: (-row.gpu_milli, row.id),
}
SORT_ORDERS = tuple(_ORDERS)


@dataclass(frozen=True, slots=True)
class LabelTerm:
    """One term of a selector. `value` None: the label only has to be there (or, `wanted` False, not)."""

    key: str
    value: str | None
    wanted: bool = True

    def matches(self, labels: Mapping[str, object]) -> bool:
        found = self.key in labels and (self.value is None or str(labels[self.key]) == self.value)
        return found is self.wanted


@dataclass(frozen=True, slots=True)
class SessionFilter:
    """What a session must be; empty and None ask nothing."""

    phases: frozenset[str] = frozenset()
    terms: tuple[LabelTerm, ...] = ()
    owners: frozenset[str] | None = None
    """Names and addresses that `spec.owner` may be, in lower case."""

    @property
    def reads_documents(self) -> bool:
        """Whether what stands in documents matters."""
        return bool(self.terms) or self.owners is not None

    def matches_document(self, document: Mapping[str, object]) -> bool:
        """Whether its labels and its owner are asked for."""
        labels = _part(_part(document, "metadata"), "labels")
        if not all(term.matches(labels) for term in self.terms):
            return False
        owner = _part(document, "spec").get("owner")
        return self.owners is None or (owner is not None and str(owner).lower() in self.owners)

    def matches_phase(self, *phases: str) -> bool:
        """Whether one of these is asked for."""
        return not self.phases or not self.phases.isdisjoint(phases)


def parse_phases(text: str) -> frozenset[str]:
    """`running,pending`, in any case. Raises CommandError."""
    known = {phase.lower(): phase for phase in PHASES}
    words = [word.strip().lower().replace("-", " ") for word in text.split(",") if word.strip()]
    for word in words:
        if word not in known:
            raise CommandError(
                why=f"there is no phase {clean(word, 40)}", hint=f"known are {', '.join(known)}"
            )
    return frozenset(known[word] for word in words)


def parse_selector(text: str) -> tuple[LabelTerm, ...]:
    """`key=value,key!=value,key,!key`, as kubectl has it. Raises CommandError."""
    return tuple(_parse_term(term.strip()) for term in text.split(",")) if text else ()


def check_sort_order(order: str) -> None:
    """Raises CommandError for what is none of `SORT_ORDERS`, nor empty."""
    if order and order not in _ORDERS:
        raise CommandError(
            why=f"--sort: nothing is sorted by {clean(order, 40)}", hint=f"known are {', '.join(_ORDERS)}"
        )


def sort_rows(rows: Sequence[S], order: str) -> list[S]:
    """In one of `SORT_ORDERS`; empty: as they are."""
    return sorted(rows, key=_ORDERS[order]) if order else list(rows)


def choose_rows(
    rows: Sequence[S],
    asked: SessionFilter,
    document_of: Callable[[str], Mapping[str, object]],
) -> list[S]:
    """Those that are asked for, in their order."""
    return [
        row
        for row in rows
        if asked.matches_phase(row.phase)
        and (not asked.reads_documents or asked.matches_document(document_of(row.id)))
    ]


def _parse_term(term: str) -> LabelTerm:
    key, unequal, value = term.partition("!=")
    if not unequal:
        key, equal, value = term.partition("=")
        value = value.removeprefix("=")
        if not equal:
            wanted = not term.startswith("!")
            key = term.removeprefix("!")
            if key:
                return LabelTerm(key.strip(), None, wanted)
    if not key.strip():
        raise CommandError(
            why=f"--selector: {clean(term, 40) or 'an empty term'} names no label",
            hint="known are key=value, key!=value, key and !key, with commas between them",
        )
    return LabelTerm(key.strip(), value.strip(), wanted=not unequal)


def _part(document: Mapping[str, object], name: str) -> Mapping[str, object]:
    found = document.get(name)
    return found if isinstance(found, Mapping) else {}
