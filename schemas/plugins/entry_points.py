"""What stands behind a name in a group of entry points: built-in ones and strangers' are loaded alike.

Built-in ones are registered in pyproject.toml as well. They are named here so that they are found without a
search through the metadata of every installed package, which a command of half a second would notice.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

PROVIDERS, QUEUE, SECRET_STORES, SELECTION = (
    "bai.providers",
    "bai.queue",
    "bai.secret_stores",
    "bai.selection",
)
BUILT_IN: Mapping[str, Mapping[str, str]] = {
    PROVIDERS: {
        "process": "providers.process.options:open_process",
        "docker": "providers.docker.options:open_docker",
        "kubernetes": "providers.kubernetes.options:open_kubernetes",
        "declared": "providers.declared:open_declared",
    },
    QUEUE: {
        "fifo": "planner.queue.fifo:fifo",
        "lifo": "planner.queue.lifo:lifo",
        "drf": "planner.queue.drf:drf",
        "fair-share": "planner.queue.fair_share:fair_share",
    },
    SECRET_STORES: {},
    SELECTION: {
        "concentrated": "planner.selection.concentrated:Concentrated",
        "dispersed": "planner.selection.dispersed:Dispersed",
        "roundrobin": "planner.selection.roundrobin:RoundRobin",
        "least-fragmentation": "planner.selection.least_fragmentation:LeastFragmentation",
    },
}
"""Group → name → entry point."""


def load_entry_points(group: str, names: Iterable[str]) -> dict[str, Any]:
    """Name → what it stands for, of those that there are; a built-in one is nobody's to replace. Nothing else
    is imported. Raises what a plugin raises when it is imported."""
    from importlib.metadata import EntryPoint

    built_in, wanted = BUILT_IN[group], set(names)
    found = {name: EntryPoint(name, built_in[name], group) for name in sorted(wanted & built_in.keys())}
    if wanted - found.keys():
        for entry in _installed(group):
            if entry.name in wanted:
                found.setdefault(entry.name, entry)
    return {name: entry.load() for name, entry in found.items()}


def entry_point_names(group: str) -> list[str]:
    """All names of a group; nothing is imported."""
    return sorted({*BUILT_IN[group], *(entry.name for entry in _installed(group))})


def _installed(group: str) -> tuple[EntryPoint, ...]:
    """Searched again once something was installed, which changes a folder: to read the metadata of every
    package for every document that names a plugin would take longer than all else."""
    return _search(group, tuple((path, _changed_at(path)) for path in sys.path))


def _changed_at(path: str) -> int:
    try:
        return os.stat(path or ".").st_mtime_ns
    except (OSError, ValueError):
        return 0


@lru_cache(maxsize=len(BUILT_IN))
def _search(group: str, folders: tuple[tuple[str, int], ...]) -> tuple[EntryPoint, ...]:
    from importlib.metadata import entry_points

    return tuple(entry_points(group=group))
