"""Providers by name, through the entry-point group `bai.providers`. Only the one that is opened is imported.

An entry point is a callable `(options, *, state_root, machines) -> Provider`: the cluster's options for this
provider as written in its document, where machine-level records go when the provider's own default is not
wanted, and the cluster's nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import cast

from providers.base import Provider
from providers.machines.base import Endpoint
from schemas.plugins.entry_points import PROVIDERS, entry_point_names, load_entry_points
from schemas.problems.errors.provider import UnknownProvider

Opener = Callable[..., Provider]


def provider_names() -> list[str]:
    """All providers there are; nothing is imported."""
    return entry_point_names(PROVIDERS)


def open_provider(
    name: str,
    options: Mapping[str, object],
    *,
    state_root: Path | None = None,
    machines: Sequence[Endpoint] = (),
) -> Provider:
    """The provider of this name for these nodes. Raises UnknownProvider, InvalidOption."""
    return load_provider(name)(options, state_root=state_root, machines=machines)


def load_provider(name: str) -> Opener:
    """What opens it. Raises UnknownProvider."""
    found = load_entry_points(PROVIDERS, [name])
    if not found:
        raise UnknownProvider(provider=name, known=", ".join(provider_names()))
    return cast(Opener, found[name])
