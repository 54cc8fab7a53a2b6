"""What a task changed, in few lines. Pure."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from typing import Any

LINES = 24
"""Most lines of one task."""
WIDTH = 160
_ANSIBLE_TEMP = "/ansible-local-"


def short_diff(res: Mapping[str, Any]) -> str:
    """From a task's result, those of a loop's items included; empty where the module shows nothing."""
    if hides_output(res):
        return ""
    lines = [line[:WIDTH] for path, each in _diffs(res) for line in _lines(path, each)]
    if len(lines) > LINES:
        lines[LINES - 1 :] = [f"... and {len(lines) - LINES + 1} more lines"]
    return "\n".join(lines)


def hides_output(res: Mapping[str, Any]) -> bool:
    """Whether the task wants nothing told of it."""
    return "censored" in res or bool(res.get("_ansible_no_log"))


def _diffs(res: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each with the path of the file that it is about, where the module says that."""
    for each in (res, *(item for item in res.get("results") or () if isinstance(item, Mapping))):
        if hides_output(each) or not each.get("changed"):
            continue
        found = each.get("diff") or ()
        for diff in (found,) if isinstance(found, Mapping) else found:
            if isinstance(diff, Mapping):
                yield str(each.get("dest") or each.get("path") or ""), diff


def _lines(path: str, diff: Mapping[str, Any]) -> Iterator[str]:
    if diff.get("prepared"):
        yield from (line for line in str(diff["prepared"]).splitlines() if line.strip())
        return
    before, after = _text(diff.get("before")), _text(diff.get("after"))
    found = difflib.unified_diff(before, after, lineterm="", n=0)
    changes = [line for line in found if not line.startswith(("---", "+++", "@@"))]
    header = path or _header(diff)
    if changes and header:
        yield header
    yield from changes


def _header(diff: Mapping[str, Any]) -> str:
    """What the module calls it, unless that is a file of Ansible's own."""
    named = (str(diff.get(name) or "").split(" (")[0] for name in ("before_header", "after_header"))
    return next((name for name in named if name and _ANSIBLE_TEMP not in name), "")


def _text(value: object) -> list[str]:
    if value is None:
        return []
    if isinstance(value, str):
        return value.splitlines()
    return [
        line.strip().rstrip(",") for line in json.dumps(value, indent=0, sort_keys=True).splitlines()[1:-1]
    ]
