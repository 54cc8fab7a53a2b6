"""Folders of volumes that are looked after on nodes which are provisioned now, or not yet. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from planner.model.types import Reason
from reconciler.plan.context import PlanContext
from reconciler.provisioning.reasons import unready_reason
from reconciler.values.plan import Action
from reconciler.values.sides import VolumeSide
from reconciler.values.volume_folders import volume_folders
from schemas.kinds.session import Session
from schemas.values.resource_ref import identity_of


def order_after_nodes(context: PlanContext, actions: Iterable[Action]) -> list[Action]:
    """The actions, those of folders after the node that they are on; left out where that is provisioned
    later only, or where a folder would go meanwhile."""
    wave = frozenset(context.rollout.wave) if context.rollout is not None else frozenset[str]()
    found = []
    for action in actions:
        side = action.after or action.before
        folder = side.folder if isinstance(side, VolumeSide) else None
        if folder is None:
            found.append(action)
        elif folder.node in wave and action.after is not None:
            needs = {*action.depends_on, identity_of("Node", folder.node)}
            found.append(replace(action, depends_on=tuple(sorted(needs))))
        elif folder.node not in wave and not _unready_reason(context, folder.node):
            found.append(action)
    return found


def volume_obstacle(session: Session, context: PlanContext) -> Reason | None:
    """Why a session's new volume cannot be made in this plan; None when it has none such."""
    if context.actual.provision_status is None or context.actual.volumes is None:
        return None
    wave = context.rollout.wave if context.rollout is not None else ()
    wanted = volume_folders(context.desired)
    for mount in session.spec.mounts:
        volume = context.desired.repository.volume_of(session, mount.volume)
        folder = wanted.get(volume.identity) if volume is not None else None
        if folder is None or folder.volume in context.actual.existing or folder.node in wave:
            continue
        if why := _unready_reason(context, folder.node):
            text = f"{folder.volume} cannot be made before {folder.node} is provisioned ({why})"
            return Reason("provisioning", text)
    return None


def _unready_reason(context: PlanContext, node: str) -> str:
    return unready_reason(context.actual.provision_status, context.actual.provision_records, node)
