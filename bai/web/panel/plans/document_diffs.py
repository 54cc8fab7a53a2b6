"""Documents that differ between two commits, line by line as YAML. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from bai.render.resources.document import document_lines
from bai.web.panel.plans.parts import Part, cut

if TYPE_CHECKING:
    from reconciler.values.state import Desired

MOST_DOCUMENTS = 25
"""Documents that one page compares."""
MOST_LINES = 200
"""Lines that are shown of one of them."""
_LONGEST = 600
"""Lines of a document beyond which its lines are not compared: a page is not to wait for that."""
_AROUND = 3
Sign = Literal["+", "-", " ", "…"]


@dataclass(frozen=True, slots=True)
class DiffLine:
    """`+`, `-`, a space, or `…` where lines are left out."""

    sign: Sign
    text: str


@dataclass(frozen=True, slots=True)
class DocumentDiff:
    """What becomes of one document; `more`: lines that are left out at its end."""

    identity: str
    verb: Literal["create", "update", "delete"]
    lines: tuple[DiffLine, ...]
    more: int = 0


def document_diffs(base: Desired | None, head: Desired, number: int = 1) -> Part[DocumentDiff]:
    """Without a base, all are new. `number`: of the page of them."""
    old = base.digests if base is not None else {}
    documents = base.documents if base is not None else {}
    known = old.keys() | head.digests.keys()
    changed = sorted(each for each in known if old.get(each) != head.digests.get(each))
    part = cut(changed, number, MOST_DOCUMENTS)
    diffs = tuple(_diff(each, documents.get(each), head.documents.get(each)) for each in part.items)
    return Part(diffs, part.number, part.count, part.total)


def _diff(
    identity: str, before: Mapping[str, object] | None, after: Mapping[str, object] | None
) -> DocumentDiff:
    old = document_lines(before) if before is not None else []
    new = document_lines(after) if after is not None else []
    lines = list(_lines(old, new))
    verb: Literal["create", "update", "delete"] = "update"
    if before is None or after is None:
        verb = "create" if before is None else "delete"
    return DocumentDiff(identity, verb, tuple(lines[:MOST_LINES]), max(0, len(lines) - MOST_LINES))


def _lines(old: list[str], new: list[str]) -> Iterator[DiffLine]:
    if not old or not new or max(len(old), len(new)) > _LONGEST:
        yield from (DiffLine("-", line) for line in old)
        yield from (DiffLine("+", line) for line in new)
        return
    groups = difflib.SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(_AROUND)
    for at, group in enumerate(groups):
        if at:
            yield DiffLine("…", "")
        for tag, low, high, start, end in group:
            if tag == "equal":
                yield from (DiffLine(" ", line) for line in old[low:high])
                continue
            yield from (DiffLine("-", line) for line in old[low:high])
            yield from (DiffLine("+", line) for line in new[start:end])
