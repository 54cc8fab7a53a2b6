"""Names for the shell's completion: read from the store as it is, so that pressing Tab stays cheap."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import typer

from schemas.values.app_protocols import APP_PROTOCOLS
from schemas.values.resource_ref import ref_of

GLOBAL_OPTIONS = "bai.started"
"""Where a half-typed command line's global options are kept in Typer's context."""


def complete_sessions(ctx: typer.Context, incomplete: str) -> list[str]:
    """Recorded sessions as short as they can be said, with the containers of those that have several."""
    return [name for name in session_names(_store_file(ctx)) if name.startswith(incomplete)]


def complete_whole_sessions(ctx: typer.Context, incomplete: str) -> list[str]:
    """The same without their containers."""
    names = _short_names(_session_records(_store_file(ctx)))
    return [name for name in names.values() if name.startswith(incomplete)]


def complete_apps(ctx: typer.Context, incomplete: str) -> list[str]:
    """Apps of the session that stands before it on the line."""
    wanted = str(ctx.params.get("session") or "")
    found = {
        name
        for each in _session_records(_store_file(ctx))
        if wanted in (ref_of(each.identity).name, ref_of(each.identity).qualified_name, each.identity)
        for name in _app_names(each.document)
    }
    return sorted(name for name in found if name.startswith(incomplete))


def complete_copy_paths(ctx: typer.Context, incomplete: str) -> list[str]:
    """For `bai cp`: sessions with a colon, and local files."""
    if ":" in incomplete:
        return []
    head, _, tail = incomplete.rpartition("/")
    folder = Path(head or ("/" if incomplete.startswith("/") else "."))
    try:
        found = sorted(entry.name for entry in folder.iterdir() if entry.name.startswith(tail))
    except OSError:
        found = []
    prefix = incomplete[: len(incomplete) - len(tail)]
    return [f"{name}:" for name in complete_sessions(ctx, incomplete)] + [prefix + name for name in found]


def _store_file(ctx: typer.Context) -> Path:
    """The file; that of the repository where the store is on a server, which Tab does not wait for."""
    options = ctx.meta.get(GLOBAL_OPTIONS, {})
    chosen = options.get("state") or os.environ.get("BAI_STATE")
    if chosen and "://" not in chosen:
        return Path(chosen) / "store.db" if Path(chosen).is_dir() else Path(chosen)
    return Path(options.get("directory") or ".") / ".bai" / "store.db"


class _SessionRecord(NamedTuple):
    """As the store has it; `kernels` and `document` are JSON, or empty."""

    identity: str
    kernels: str
    document: str


def session_names(store: Path) -> list[str]:
    """With the containers of those that have several."""
    records = _session_records(store)
    names = _short_names(records)
    found: list[str] = []
    for each in records:
        name = names[each.identity]
        found.append(name)
        if len(json.loads(each.kernels or "[]")) > 1:
            found += [f"{name}/{kernel}" for kernel in _kernel_names(each.document)]
    return found


def _session_records(store: Path) -> list[_SessionRecord]:
    """Nothing when the store cannot be read: completion never complains."""
    import sqlite3

    if not store.exists():
        return []
    query = "SELECT resource, kernels, document FROM resources WHERE resource LIKE 'Session/%' ORDER BY 1"
    try:
        with sqlite3.connect(f"file:{store}?mode=ro", uri=True, timeout=1) as connection:
            return [_SessionRecord(*row) for row in connection.execute(query).fetchall()]
    except sqlite3.Error:
        return []


def _short_names(records: Iterable[_SessionRecord]) -> dict[str, str]:
    """By identity; with their project where others are called so, too."""
    refs = {each.identity: ref_of(each.identity) for each in records}
    counts = Counter(ref.name for ref in refs.values())
    return {
        identity: ref.name if counts[ref.name] == 1 else ref.qualified_name for identity, ref in refs.items()
    }


def _app_names(document: str) -> list[str]:
    ports = json.loads(document or "{}").get("spec", {}).get("ports", [])
    return [str(port["name"]) for port in ports if port.get("protocol", "http") in APP_PROTOCOLS]


def _kernel_names(document: str) -> list[str]:
    roles = json.loads(document or "{}").get("spec", {}).get("cluster", {}).get("roles", {})
    counted = {"main": 1, **(roles if isinstance(roles, dict) else {})}
    return [f"{role}{number}" for role, count in counted.items() for number in range(1, int(count) + 1)]
