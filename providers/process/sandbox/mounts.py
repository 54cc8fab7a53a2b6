"""Volumes of a kernel.

Checked step by step on the real file system, so that no link leads out of the storage host's root.
"""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from providers import accounts
from providers.storage.mounts import mount_problem_here
from schemas.problems.errors.kernel import KernelRefused

if TYPE_CHECKING:
    from providers.base import KernelSpec

HOME = PurePosixPath(accounts.HOME)
"""Where a kernel's scratch folder is, as it sees it itself in a sandbox."""
GIVEN = PurePosixPath("/run/bai")
"""Where the files made for it are."""


def check_mounts(spec: KernelSpec) -> None:
    """Every source is a folder under its root with no link on the way.

    Missing ones under a root are made. Raises KernelRefused.
    """
    why = mount_problem_here(spec.mounts, spec.uid if os.geteuid() == 0 else None)
    if why:
        raise KernelRefused(provider="process", kernel=spec.id, why=why)
    for mount in spec.mounts:
        path_inside(spec.id, mount.target)


def path_inside(kernel_id: str, target: str) -> PurePosixPath:
    """A path as the kernel sees it, relative to its scratch folder where it lies there.

    Raises KernelRefused.
    """
    path = PurePosixPath(target)
    if ".." in path.parts or "\0" in target or not path.parts or path == PurePosixPath("/"):
        raise KernelRefused(provider="process", kernel=kernel_id, why=f"{target!r} is not a path in a kernel")
    if path.is_relative_to(HOME):
        return path.relative_to(HOME)
    return path


def link_mounts(spec: KernelSpec, scratch: Path) -> None:
    """Without a sandbox: links in the scratch folder, named as the targets are. Raises KernelRefused."""
    for mount in spec.mounts:
        place = scratch / str(path_inside(spec.id, mount.target)).lstrip("/")
        if place == scratch:
            why = f"{mount.target} cannot be a link: it is the scratch folder"
            raise KernelRefused(provider="process", kernel=spec.id, why=why)
        if place.is_symlink() and os.readlink(place) == mount.source:
            continue
        if os.path.lexists(place) or not _is_within(place.parent, scratch):
            why = f"{mount.target} is taken by another mount"
            raise KernelRefused(provider="process", kernel=spec.id, why=why)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(mount.source)


def _is_within(path: Path, scratch: Path) -> bool:
    """Whether the folder is really in the scratch folder, not behind another mount's link."""
    return path.resolve().is_relative_to(scratch.resolve())
