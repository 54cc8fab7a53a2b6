"""Folders of volumes that are looked after on nodes which are provisioned now, or not yet. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from planner.model.types import Reason
from reconciler.plan.context import Case
from reconciler.provisioning.reasons import unready
from reconciler.values.plan import Action
from reconciler.values.volume_folders import folders
from schemas.kinds.session import Session


def after_nodes(case: Case, actions: Iterable[Action]) -> list[Action]:
    """The actions, those of folders after the node that they are on; left out where that is provisioned
    later only, or where a folder would go meanwhile."""
    wave = frozenset(case.rolling.wave) if case.rolling is not None else frozenset[str]()
    found = []
    for action in actions:
        side = action.after or action.before
        folder = side.folder if side is not None else None
        if folder is None or not action.id.startswith("Volume/"):
            found.append(action)
        elif folder.node in wave and action.after is not None:
            needs = {*action.depends_on, f"Node/{folder.node}"}
            found.append(replace(action, depends_on=tuple(sorted(needs))))
        elif folder.node not in wave and not _unready(case, folder.node):
            found.append(action)
    return found


def unmade(session: Session, case: Case) -> Reason | None:
    """Why a session's new volume cannot be made in this plan; None when it has none such."""
    if case.actual.upkeep is None or case.actual.volumes is None:
        return None
    wave = case.rolling.wave if case.rolling is not None else ()
    wanted = folders(case.desired)
    for mount in session.spec.mounts:
        volume = case.desired.repository.volume_of(session, mount.volume)
        folder = wanted.get(volume.identity) if volume is not None else None
        if folder is None or folder.volume in case.actual.existing or folder.node in wave:
            continue
        if why := _unready(case, folder.node):
            text = f"{folder.volume} cannot be made before {folder.node} is provisioned ({why})"
            return Reason("provisioning", text)
    return None


def _unready(case: Case, node: str) -> str:
    return unready(case.actual.upkeep, case.actual.standings, node)
