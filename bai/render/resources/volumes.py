"""Volumes and their folders, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from bai.render.humanize import clean, size

if TYPE_CHECKING:
    from providers.storage.base import FolderState, VolumeFolder

COLUMNS = ("volume", "host", "node", "folder", "used", "quota", "about")


def volume_rows(found: Mapping[str, VolumeFolder], seen: Mapping[str, FolderState]) -> list[list[str]]:
    """One line per volume, in the order of `COLUMNS`."""
    return [
        [
            identity.partition("/")[2], folder.host, folder.node or "-", clean(folder.source),
            used_text(seen.get(identity)), most_text(folder, seen.get(identity)),
            volume_note(folder, seen.get(identity)),
        ]
        for identity, folder in sorted(found.items())
    ]  # fmt: skip


def used_text(seen: FolderState | None) -> str:
    """How much it holds."""
    if seen is None or seen.used is None:
        return "-"
    return size(seen.used) if seen.whole else f"more than {size(seen.used)}"


def most_text(folder: VolumeFolder, seen: FolderState | None) -> str:
    """What it may hold: its quota, or how large its claim is, or asks to be."""
    most = folder.quota if folder.claim is None else (seen.quota if seen else 0) or folder.claim.size
    return size(most) if most else "-"


def volume_note(folder: VolumeFolder, seen: FolderState | None) -> str:
    """What is to be said about it."""
    if seen is None:
        return "not looked at" if folder.claim or folder.node else "nobody looks at it: see its pods"
    if seen.state != "there":
        return "not made yet" if seen.state == "absent" else clean(seen.why)
    if folder.claim is not None:
        return clean(seen.why)
    if folder.quota and seen.unheld:
        return f"quota not enforced: {clean(seen.unheld)}"
    if folder.quota and seen.used is not None and seen.used >= folder.quota:
        return "full"
    return ""


def volume_lines(folder: VolumeFolder, seen: FolderState | None) -> Iterator[str]:
    """For a description."""
    yield f"folder      {clean(folder.place)}"
    if folder.claim is not None:
        yield f"capacity    {most_text(folder, seen)}, {', '.join(folder.claim.access_modes)}"
    elif seen is not None and seen.state == "there":
        yield f"owner       {seen.uid}:{seen.gid}, mode {seen.mode:04o}"
        held = size(seen.quota) if seen.quota else "none"
        yield f"holds       {used_text(seen)}, quota {held}"
    note = volume_note(folder, seen)
    if note:
        yield f"about       {note}"


def volume_json(folder: VolumeFolder, seen: FolderState | None) -> dict[str, object]:
    """The fields of one volume for programs; bytes."""
    shown: dict[str, object] = {
        "id": folder.volume, "storageHost": folder.host, "node": folder.node, "folder": folder.source,
        "quota": folder.quota, "size": folder.claim.size if folder.claim else None,
        "state": seen.state if seen else "unknown",
    }  # fmt: skip
    if seen is not None:
        shown |= {"why": seen.why, "quotaNotEnforced": seen.unheld}
    if seen is not None and folder.claim is not None:
        shown |= {"capacity": seen.quota or None}
    elif seen is not None and seen.state == "there":
        shown |= {
            "used": seen.used, "usedIsLowerBound": not seen.whole, "quotaHeld": seen.quota or None,
            "uid": seen.uid, "gid": seen.gid, "mode": f"{seen.mode:04o}",
        }  # fmt: skip
    return shown
