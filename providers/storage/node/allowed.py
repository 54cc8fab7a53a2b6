"""Which folders of a node may be the root of a storage host: those that the node's owner lists, else any that
are not the system's or a person's home. Documents name a root, and whoever writes one must not have files of
the system made, given away and mounted. Standard library only.
"""

from __future__ import annotations

import os
import pwd
import stat

from providers.storage.node.walk import FolderRefused, reference

LIST = "/etc/bai/storage-roots"
"""The owner's: absolute folders, one a line, in which roots may lie; `#` begins a comment."""
HOMES = "/home"
SYSTEM = (
    "/bin", "/boot", "/dev", "/efi", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/root", "/run",
    "/sbin", "/snap", "/sys", "/usr", "/var/backups", "/var/cache", "/var/db", "/var/lib", "/var/lock",
    "/var/log", "/var/mail", "/var/run", "/var/spool",
)  # fmt: skip


def check_root(root: int, path: str) -> None:
    """`root`: a descriptor of the folder that `path` led to. Raises FolderRefused."""
    real = os.readlink(reference(root))
    shown = path if real == path.rstrip("/") else f"{path} (that is {real})"
    listed = _listed_roots()
    if listed is not None:
        if not any(_is_within(real, os.path.realpath(each)) for each in listed):
            raise FolderRefused(f"{shown} is in none of the folders that the node's owner lists in {LIST}")
    elif any(_is_within(real, each) or _is_within(each, real) for each in map(os.path.realpath, SYSTEM)):
        raise FolderRefused(f"{shown} holds files of the system; its owner may allow it in {LIST}")
    elif _is_personal(real):
        raise FolderRefused(f"{shown} is somebody's home, or hidden in one; its owner may allow it in {LIST}")


def _listed_roots() -> list[str] | None:
    """None where the owner says nothing. Raises FolderRefused."""
    try:
        with open(LIST, encoding="utf-8") as file:
            found = os.fstat(file.fileno())
            if found.st_uid not in (0, os.geteuid()) or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise FolderRefused(f"{LIST} must be root's, and writable to nobody else")
            words = (line.partition("#")[0].strip() for line in file)
            listed = [word for word in words if word]
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise FolderRefused(f"{LIST}: {error}") from error
    wrong = next((each for each in listed if not each.startswith("/")), None)
    if wrong is not None:
        raise FolderRefused(f"{LIST}: {wrong!r} is not an absolute folder")
    return listed


def _is_personal(real: str) -> bool:
    """The folder of all homes, one of them, or what is hidden in one (`.ssh`, `.config`)."""
    homes = os.path.realpath(HOMES)
    below = os.path.relpath(real, homes).split("/") if _is_within(real, homes) else None
    if below is not None and (len(below) < 2 or any(step.startswith(".") for step in below)):
        return True
    own = os.path.realpath(_home_folder())
    if _is_within(own, real):
        return True
    return _is_within(real, own) and any(
        step.startswith(".") for step in os.path.relpath(real, own).split("/")
    )


def _home_folder() -> str:
    """Of whoever this runs as, whatever the environment says."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_dir or "/"
    except KeyError:
        return "/"


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
