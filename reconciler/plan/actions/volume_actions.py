"""Volumes against the folders that were found for them: what is made, moved aside or left alone. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from providers.storage.base import FolderState, VolumeFolder
from reconciler.plan.context import PlanContext
from reconciler.values.changes.cause import Cause, CauseCode
from reconciler.values.documents.recorded_documents import recorded_session
from reconciler.values.plan import Action, Drift
from reconciler.values.records import HOLDING
from reconciler.values.session_phase import LIVE
from reconciler.values.sides import VolumeSide
from reconciler.values.state import Existing
from reconciler.values.volume_folders import recorded_folder, volume_folders
from schemas.values.quantities import format_memory
from schemas.values.resource_ref import identity_of, ref_of

_ROUNDING = 65_536
"""File systems round limits to their blocks, of at most 64 KiB."""


def add_folders(context: PlanContext, actions: Iterable[Action]) -> tuple[list[Action], tuple[str, ...]]:
    """The actions, those of volumes with what happens to their folders, and what is to be said about them.

    Nothing changes where nobody looks after folders.
    """
    found = list(actions)
    if context.actual.volumes is None:
        return found, ()
    wanted = {} if context.destroy else volume_folders(context.desired)
    going = any(ref_of(action.id).kind == "Volume" and action.after is None for action in found)
    users = _volume_users(context, found) if going else {}
    notes: list[str] = []
    for at, action in enumerate(found):
        if ref_of(action.id).kind != "Volume":
            continue
        if not isinstance(action.after, VolumeSide):
            found[at] = _trash_folder(context, action, users.get(action.id, {}), notes)
        elif folder := wanted.get(action.id):
            found[at] = _make_folder(context, action, action.after, folder)
    return found, tuple(notes)


def _make_folder(context: PlanContext, action: Action, after: VolumeSide, folder: VolumeFolder) -> Action:
    seen = (context.actual.volumes or {}).get(action.id)
    drifted = tuple(folder_differences(folder, seen)) if action.before is not None else ()
    if action.verb == "no-op" and not drifted:
        return action
    document = context.desired.documents[action.id]
    old = recorded_folder(context.desired, context.actual, action.id) if action.before is not None else None
    if folder.quota is None and old is not None and old.quota:
        folder = replace(folder, quota=0)
    after = replace(after, document=document, folder=folder)
    before = action.before
    if before is not None and action.verb == "no-op":
        before = replace(before, document=context.actual.existing[action.id].recorded.document)
    warnings = (*action.warnings, *_folder_warnings(folder, old, seen))
    cause = action.cause or Cause(CauseCode.FOLDER_DRIFTED, f"its folder {drifted[0]}")
    return replace(action, before=before, after=after, cause=cause, warnings=warnings)


def _folder_warnings(
    folder: VolumeFolder, old: VolumeFolder | None, seen: FolderState | None
) -> Iterator[str]:
    if seen is not None and seen.state in ("refused", "unknown"):
        yield f"its folder cannot be used: {seen.why}"
    if old is None and folder.claim is None and not folder.node:
        yield f"bai makes no folder there: {folder_command(folder)}"
    if seen is not None and folder.quota and seen.unheld:
        yield f"the quota of {format_memory(folder.quota)} is not enforced: {seen.unheld}"
    if old is not None and old.source != folder.source:
        yield f"what is in {old.source} stays there: move it to {folder.source} yourself"


def folder_command(folder: VolumeFolder) -> str:
    """How a folder that nobody makes is made."""
    owner = "" if folder.new_owner is None else f" -o {folder.new_owner} -g {folder.new_owner}"
    path = f"{folder.root.rstrip('/')}/{folder.path}"
    where = f"on {folder.server}" if folder.server else "on each node that mounts it"
    return f"{where}, as root: install -d -m 2775{owner} {shlex.quote(path)}"


def _trash_folder(
    context: PlanContext, action: Action, users: Mapping[str, bool], notes: list[str]
) -> Action:
    """Moved aside once its last session is gone; left alone while one runs on."""
    assert isinstance(action.before, VolumeSide) and action.cause is not None
    staying = sorted(session for session, gone in users.items() if not gone)
    if staying:
        notes.append(f"{action.id} is not deleted while {', '.join(staying)} has it mounted")
        side = replace(action.before, document={})
        return replace(action, before=side, after=side, cause=None, protected=False)
    folder = recorded_folder(context.desired, context.actual, action.id)
    cause = action.cause
    if folder is not None and folder.claim is None and not folder.node:
        cause = replace(cause, text=f"{cause.text}, its data stays: {folder.source}")
        folder = None
    elif folder is not None:
        what = "folder" if folder.claim is None else "claim"
        cause = replace(cause, text=f"{cause.text}, its {what} goes to the trash of {folder.host}")
    before = replace(action.before, folder=folder)
    return replace(action, before=before, cause=cause, depends_on=tuple(sorted({*action.depends_on, *users})))


def _volume_users(context: PlanContext, actions: Iterable[Action]) -> dict[str, dict[str, bool]]:
    """Volume → sessions whose kernels have it mounted, and whether this plan ends these."""
    plans = {action.id: action for action in actions}
    found: dict[str, dict[str, bool]] = {}
    for each in context.actual.existing.values():
        if each.phase in HOLDING or any(kernel.state in LIVE for kernel in (*each.kernels, *each.strays)):
            gone = _ends_all_kernels(plans.get(each.id))
            for volume in _mounted_volumes(context, each):
                found.setdefault(volume, {})[each.id] = gone
    return found


def _ends_all_kernels(action: Action | None) -> bool:
    """Whether none of the kernels there are now is left."""
    if action is None or action.verb == "no-op":
        return False
    before, after = action.session_before, action.session_after
    return after is None or before is None or not set(before.kernels) & set(after.kernels)


def _mounted_volumes(context: PlanContext, existing: Existing) -> Iterator[str]:
    session = recorded_session(existing.recorded.document) if ref_of(existing.id).kind == "Session" else None
    for mount in session.spec.mounts if session else ():
        own = identity_of("Volume", mount.volume, session.project) if session else ""
        yield own if own in context.actual.existing else identity_of("Volume", mount.volume)


def volume_drifts(context: PlanContext) -> Iterator[Drift]:
    """Folders of applied volumes that are not what was applied."""
    wanted = volume_folders(context.desired) if context.actual.volumes else {}
    for identity, seen in sorted((context.actual.volumes or {}).items()):
        folder = recorded_folder(context.desired, context.actual, identity)
        # Where the documents say another place now, nobody looked at the old one.
        if folder is not None and identity in wanted and folder.source == wanted[identity].source:
            yield from (Drift(identity, what) for what in folder_differences(folder, seen))


def folder_differences(folder: VolumeFolder, seen: FolderState | None) -> Iterator[str]:
    """How a folder is not what it must be; nothing where nobody could look."""
    if seen is None or seen.state == "unknown":
        return
    if seen.state != "there":
        yield "is gone" if seen.state == "absent" else f"cannot be used: {seen.why}"
        return
    owner = (folder.uid, folder.gid)
    if any(wanted not in (None, has) for wanted, has in zip(owner, (seen.uid, seen.gid), strict=True)):
        words = ["-" if part is None else str(part) for part in owner]
        yield f"belongs to {seen.uid}:{seen.gid} instead of {':'.join(words)}"
    if folder.claim is not None and folder.claim.size > seen.size:
        yield f"asks for {format_memory(seen.size)} instead of {format_memory(folder.claim.size)}"
    if folder.mode is not None and folder.mode != seen.mode:
        yield f"has mode {seen.mode:04o} instead of {folder.mode:04o}"
    if folder.quota is not None and not seen.unheld and abs(folder.quota - seen.quota) >= _ROUNDING:
        yield f"may hold {_format_quota(seen.quota)} instead of {_format_quota(folder.quota)}"


def _format_quota(quota: int) -> str:
    return format_memory(quota) if quota else "any amount"
