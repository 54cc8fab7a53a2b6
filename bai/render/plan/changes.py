"""What a plan changes, in words: an entry for each resource, or one for many that change in the same way."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bai.render.humanize import (
    clean,
    join_limited,
    name_list,
    plural,
    shared_lines,
    short_name,
    size,
    truncate_around_difference,
)
from bai.render.plan.action_words import SYMBOLS, VERBS
from bai.render.plan.images import pull_line
from bai.render.plan.node_rollout import node_details
from reconciler.values.sides import ImageSide
from schemas.values.resource_ref import ref_of

if TYPE_CHECKING:
    from reconciler.values.changes.change import Change
    from reconciler.values.plan import Action, Plan

FEW_CHANGES = 20
"""So many sessions are told one by one."""
_MOST_NAMES = 6
_MOST_SHARED_LINES = 4
_MOST_DIFF_LINES = 12
_LONGEST_DIFF = 400
"""Lines of a text beyond which its lines are not compared: the plan is not to wait for that."""
_LONGEST_LINE = 160


@dataclass(frozen=True, slots=True)
class ChangeEntry:
    """One line of the list of changes, with what belongs under it."""

    kind: str
    """`create`, `update`, `replace`, `delete`, `queue` for a session that waits, `stop` for
    one that had its time, `provision` for a node."""
    names: tuple[str, ...]
    """Identities; several where those that change in the same way are told together."""
    why: str
    details: tuple[str, ...] = ()
    """A text of several lines is one detail."""
    warnings: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    """Fields of the document that change."""
    containers: tuple[str, ...] = ()
    """What is stopped."""
    similar: bool = False
    """Whether it stands for several that are alike, and not the same."""

    @property
    def title(self) -> str:
        return f"{self.label}: {self.listed}" if self.listed else self.label

    @property
    def label(self) -> str:
        """The title without the names where they are many."""
        if len(self.names) == 1:
            return clean(self.names[0])
        kind = clean(ref_of(self.names[0]).kind)
        if len(self.names) <= _MOST_NAMES:
            return f"{kind} {join_limited(map(short_name, self.names))}"
        return f"{len(self.names)} x {kind}"

    @property
    def listed(self) -> str:
        """The names where they are many; empty where the label has them."""
        if len(self.names) <= _MOST_NAMES:
            return ""
        return name_list(map(short_name, self.names), _MOST_NAMES)


def change_kind(action: Action) -> str:
    """The verb, or `queue` where a session is only put into its queue, `stop` where it is stopped for
    good, `provision` where a node is brought to its profile."""
    before, after = action.session_before, action.session_after
    if action.provision:
        return "provision"
    ends = after is not None and after.phase == "TERMINATED"
    if ends and before is not None and before.phase == "RUNNING" and action.verb == "update":
        return "stop"
    if action.verb in ("create", "update") and after and after.phase == "PENDING" and not after.placement:
        return "queue"
    return action.verb


def change_entries(plan: Plan, *, details: bool = True) -> list[ChangeEntry]:
    """The changes in the plan's order; neighbours of one kind without details are told together. Without
    `details`, so are all sessions that change in the same way, where they are many."""
    found: list[ChangeEntry] = []
    for action in plan.changes:
        entry = _change_entry(action, plan)
        last = found[-1] if found else None
        if last and _is_bare(entry) and _is_bare(last) and _group_key(last) == _group_key(entry):
            found[-1] = ChangeEntry(kind=last.kind, names=last.names + entry.names, why=last.why)
        else:
            found.append(entry)
    return found if details or len(found) <= FEW_CHANGES else _similar_together(found)


def legend_of(entries: Sequence[ChangeEntry]) -> str:
    """What the symbols of these entries mean: `+ create, ? wait in the queue`."""
    kinds = {entry.kind for entry in entries}
    return ", ".join(f"{SYMBOLS[kind]} {word}" for kind, word in VERBS.items() if kind in kinds)


def _change_entry(action: Action, plan: Plan) -> ChangeEntry:
    kind = change_kind(action)
    kernels = action.session_before.kernels if action.session_before else ()
    return ChangeEntry(
        kind=kind,
        names=(action.id,),
        why=clean(action.why),
        details=(*_detail_lines(action), *node_details(action, plan)),
        warnings=tuple(clean(warning) for warning in action.warnings),
        paths=tuple(change.path for change in action.changes),
        containers=tuple(map(clean, kernels)) if kind in ("delete", "queue", "stop") else (),
    )


def _is_bare(entry: ChangeEntry) -> bool:
    lone = ref_of(entry.names[0]).kind not in ("Session", "Kernel")
    return lone and not entry.details and not entry.warnings and not entry.containers


def _group_key(entry: ChangeEntry) -> tuple[str, str, str]:
    return entry.kind, ref_of(entry.names[0]).kind, entry.why


def _similar_together(entries: Sequence[ChangeEntry]) -> list[ChangeEntry]:
    """Entries of the same kind and cause that change the same fields as one, where the first of them was."""
    groups: dict[object, list[ChangeEntry]] = {}
    for entry in entries:
        groups.setdefault((_group_key(entry), entry.paths), []).append(entry)
    return [those[0] if len(those) == 1 else _merged(those) for those in groups.values()]


def _merged(entries: Sequence[ChangeEntry]) -> ChangeEntry:
    first = entries[0]
    return ChangeEntry(
        kind=first.kind,
        names=tuple(name for entry in entries for name in entry.names),
        why=first.why,
        details=_alike([entry.details for entry in entries], "detail"),
        warnings=_alike([entry.warnings for entry in entries], "warning"),
        paths=first.paths,
        containers=tuple(name for entry in entries for name in entry.containers),
        similar=True,
    )


def _alike(sets: Sequence[tuple[str, ...]], noun: str) -> tuple[str, ...]:
    def others(count: int) -> str:
        return f"and {plural(count, f'other {noun}')}, each of some of them"

    return tuple(shared_lines(sets, _MOST_SHARED_LINES, others))


def stops_line(entry: ChangeEntry) -> str:
    """What of an entry is stopped; empty where nothing is."""
    if not entry.containers:
        return ""
    count = plural(len(entry.containers), "container")
    return f"stops {count}: {join_limited(entry.containers)}" if len(entry.names) == 1 else f"stops {count}"


def _detail_lines(action: Action) -> Iterator[str]:
    for change in action.changes:
        yield _change_text(change)
    yield from _scratch_lines(action)
    yield from _image_lines(action)
    if isinstance(action.after, ImageSide):
        yield from map(pull_line, action.after.pulls)
    if action.notice:
        with_signal = f"told by {clean(action.notice.signal)}, then " if action.notice.signal else ""
        yield f"{with_signal}{action.notice.grace:g} s to save its work"
    if action.protected:
        yield "protected against deletion"


def _change_text(change: Change) -> str:
    """`spec.image: "a:1" -> "a:2"`; of texts of several lines, the lines that differ."""
    forces = "  # forces replacement" if change.forces else ""
    lines = _line_diff(_text_lines(change.before), _text_lines(change.after))
    if lines:
        return "\n".join([f"{clean(change.path)}: these lines change{forces}", *lines])
    none = "(none)"
    before, after = truncate_around_difference(
        none if change.before is None else change.before,
        none if change.after is None else change.after,
        200,
    )
    return f"{clean(change.path)}: {before} -> {after}{forces}"


def _text_lines(value: str | None) -> list[str] | None:
    """The lines of the text that a rendered value holds, none of no value; None where it holds something
    else."""
    if value is None:
        return []
    if not value.startswith('"'):
        return None
    try:
        found = json.loads(value)
    except ValueError:
        return None
    # Half a character, which JSON can hold and no terminal can show.
    return str(found).encode("utf-8", "backslashreplace").decode().split("\n")


def _line_diff(before: list[str] | None, after: list[str] | None) -> list[str]:
    """The lines that are taken away and added; empty where that is not a matter of lines, or of too many."""
    if before is None or after is None or not 1 < max(len(before), len(after)) <= _LONGEST_DIFF:
        return []
    hunks = list(difflib.unified_diff(before, after, lineterm="", n=0))[2:]
    found = [f"  {line[0]} {clean(line[1:], _LONGEST_LINE)}" for line in hunks if not line.startswith("@@")]
    more = len(found) - _MOST_DIFF_LINES
    return [*found[:_MOST_DIFF_LINES], f"  and {plural(more, 'more line')}"] if more > 0 else found


def _scratch_lines(action: Action) -> Iterator[str]:
    """`scratch at most 20GiB`, with the kernels where they differ."""
    kernels: dict[int, list[str]] = {}
    for spec in action.session_after.specs if action.session_after else ():
        kernels.setdefault(spec.scratch, []).append(spec.labels.kernel)
    for most, names in kernels.items():
        whose = f" for {join_limited(map(clean, names))}" if len(kernels) > 1 else ""
        if most:
            yield f"scratch at most {size(most)}{whose}"


def _image_lines(action: Action) -> Iterator[str]:
    """`image r.io/tool@sha256:...` of what a session is started from, where its nodes fetch images."""
    if action.session_after:
        for image in sorted({pull.image for pull in action.session_after.pulls}):
            yield f"image {clean(image)}" + ("" if "@" in image else ", not pinned by a digest")
