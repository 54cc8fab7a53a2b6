"""Names for the shell's completion: read from the store as it is, so that pressing Tab stays cheap."""

from __future__ import annotations

import json
import os
from pathlib import Path

import typer

from schemas.values.resource_ref import ref_of

GLOBAL_OPTIONS = "bai.started"
"""Where a half-typed command line's global options are kept in Typer's context."""


def complete_sessions(ctx: typer.Context, incomplete: str) -> list[str]:
    """Recorded sessions as short as they can be said, with the containers of those that have several."""
    return [name for name in session_names(_store_file(ctx)) if name.startswith(incomplete)]


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


def session_names(store: Path) -> list[str]:
    """Nothing when the store cannot be read: completion never complains."""
    import sqlite3

    if not store.exists():
        return []
    query = "SELECT resource, kernels, document FROM resources WHERE resource LIKE 'Session/%' ORDER BY 1"
    try:
        with sqlite3.connect(f"file:{store}?mode=ro", uri=True, timeout=1) as connection:
            rows = connection.execute(query).fetchall()
    except sqlite3.Error:
        return []
    shorts = [ref_of(row[0]).name for row in rows]
    found: list[str] = []
    for identity, kernels, document in rows:
        name = ref_of(identity).name
        name_shown = name if shorts.count(name) == 1 else ref_of(identity).qualified_name
        found.append(name_shown)
        if len(json.loads(kernels or "[]")) > 1:
            found += [f"{name_shown}/{kernel}" for kernel in _kernel_names(document)]
    return found


def _kernel_names(document: str) -> list[str]:
    roles = json.loads(document or "{}").get("spec", {}).get("cluster", {}).get("roles", {})
    counted = {"main": 1, **(roles if isinstance(roles, dict) else {})}
    return [f"{role}{number}" for role, count in counted.items() for number in range(1, int(count) + 1)]
