"""Volumes and parts of GPUs: whether the nodes can do what the documents ask of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from bai.cli.doctor.check import Finding

if TYPE_CHECKING:
    from bai.settings import Settings
    from providers.storage.base import FolderState, VolumeFolder


def volumes(settings: Settings) -> Iterator[Finding]:
    """Each volume's folder, looked at on its node."""
    from reconciler.values.volume_folders import volume_folders
    from schemas.problems.errors.base import BaiError

    try:
        with settings.reading_workspace() as workspace:
            wanted = volume_folders(workspace.desired())
            seen = workspace.volumes() if wanted else None
    except BaiError:
        return  # The check of the documents has said why.
    if seen is None:
        yield Finding("volumes", "skipped", "there are none whose folders bai looks after")
        return
    yield from folder_findings(wanted, seen)


def folder_findings(wanted: Mapping[str, VolumeFolder], seen: Mapping[str, FolderState]) -> Iterator[Finding]:
    """What is wrong with folders, or that nothing is."""
    well = 0
    for identity, folder in sorted(wanted.items()):
        one = seen.get(identity)
        if one is not None and one.state in ("refused", "unknown"):
            hint = "" if one.mounted else "mount it, or name its type in fileSystems"
            yield Finding("volumes", "failed", f"{identity}: {one.why}", hint)
        elif one is not None and folder.quota and one.unheld:
            yield Finding("volumes", "warning", f"{identity}: its quota is not enforced: {one.unheld}")
        else:
            well += 1
    if well:
        yield Finding("volumes", "ok", f"{well} of {len(wanted)} can be used as they are written")


def fractions(settings: Settings) -> Iterator[Finding]:
    """What the nodes of groups that demand enforcement can enforce, and what did not hold when tried last."""
    from providers.abilities import ReportsFractions
    from reconciler.values.documents.fraction_groups import group_nodes
    from reconciler.workspace.enforcement import known_obstacles
    from schemas.problems.errors.base import BaiError

    try:
        with settings.reading_workspace() as workspace:
            desired = workspace.desired()
            groups = {
                group.name: group.spec.fractional.enforcement
                for group in desired.groups.values()
                if group.spec.fractional.enforcement in ("mps", "hami")
            }
            if not groups or not isinstance(workspace.provider, ReportsFractions):
                return
            nodes_of_groups = {name: group_nodes(desired, name) for name in groups}
            wanted = {node for nodes in nodes_of_groups.values() for node in nodes}
            missing = known_obstacles(workspace, sorted(wanted))
    except BaiError:
        return
    for name, means in sorted(groups.items()):
        yield from enforcement_findings(
            name, means, {node: missing.get(node) for node in nodes_of_groups[name]}
        )


def enforcement_findings(
    group: str, means: str, missing: Mapping[str, Mapping[str, str] | None]
) -> Iterator[Finding]:
    """Of one group: which of its nodes cannot enforce what it demands, and why."""
    good = 0
    for node, each in sorted(missing.items()):
        why = "it cannot be reached" if each is None else each.get(means, "")
        if why:
            yield Finding("parts of GPUs", "warning", f"group {group}, node {node}: no {means}: {why}")
        else:
            good += 1
    if good:
        yield Finding("parts of GPUs", "ok", f"group {group}: {good} of {len(missing)} nodes enforce {means}")
