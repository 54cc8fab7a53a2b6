"""What a kernel is about to mount, checked on the node it will run on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from providers.base import Mount
from providers.machines.base import Machine
from providers.storage.node import main


def mount_problem(machine: Machine, mounts: Sequence[Mount], owner: int | None = None) -> str:
    """Why these folders cannot be mounted on a machine; empty when they can.

    Each is reached from its root without following links, on a file system of the right type; what is missing
    under a root is made, and belongs to the user `owner`, or to whom the folder above belongs. Raises
    ProviderError.
    """
    from providers.storage.nodes import ask_folders

    wanted, why = _requests(mounts, owner)
    return why or _first_problem(mounts, ask_folders(machine, "check", wanted) if wanted else [])


def mount_problem_here(mounts: Sequence[Mount], owner: int | None = None) -> str:
    """The same on this machine, in this process."""
    wanted, why = _requests(mounts, owner)
    return why or _first_problem(mounts, main.serve({"do": "check", "folders": wanted}))


def _requests(mounts: Sequence[Mount], owner: int | None = None) -> tuple[list[Mapping[str, object]], str]:
    found: list[Mapping[str, object]] = []
    for mount in mounts:
        source, root = PurePosixPath(mount.source), PurePosixPath(mount.root or "/")
        if not source.is_absolute() or ".." in source.parts or "\0" in mount.source:
            return [], f"mount {mount.source!r}: not an absolute path without `..`"
        if not source.is_relative_to(root) or ".." in root.parts:
            return [], f"mount {mount.source}: not under {root}"
        _, path = mount.beneath
        found.append(
            {
                "root": str(root),
                "path": path,
                "make": bool(mount.root),
                "anywhere": not mount.root,
                "newOwner": owner,
                "fileSystems": mount.file_systems,
            }
        )
    return found, ""


def _first_problem(mounts: Sequence[Mount], answers: Sequence[Mapping[str, object]]) -> str:
    for mount, answer in zip(mounts, answers, strict=True):
        if "refused" in answer:
            return f"mount {mount.source}: {answer['refused']}"
    return ""
