"""Providers by name, through the entry-point group `bai.providers`. Only the one that is opened is imported.

An entry point is a callable `(options, *, state_root) -> Provider`: the cluster's options for this provider
as written in its document, and where machine-level records go when the provider's own default is not wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import cast

from providers.base import Provider
from schemas.errors import UnknownProvider

GROUP = "bai.providers"
BUILT_IN = {
    "process": "providers.process.options:open_process",
    "declared": "providers.declared:open_declared",
}
"""The same as in pyproject.toml: so that a source tree that was never installed works too."""

Opener = Callable[..., Provider]


def names() -> list[str]:
    """All providers there are; nothing is imported."""
    return sorted({entry.name for entry in entry_points(group=GROUP)} | BUILT_IN.keys())


def open_provider(name: str, options: Mapping[str, object], *, state_root: Path | None = None) -> Provider:
    """The provider of this name. Raises UnknownProvider, InvalidOption."""
    found = [entry for entry in entry_points(group=GROUP) if entry.name == name]
    if not found and name in BUILT_IN:
        found = [EntryPoint(name, BUILT_IN[name], GROUP)]
    if not found:
        raise UnknownProvider(provider=name, known=", ".join(names()))
    opener = cast(Opener, found[0].load())
    return opener(options, state_root=state_root)
