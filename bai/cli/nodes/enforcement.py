"""`bai nodes check --enforcement`: whether parts of GPUs hold those who have them, tried now."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bai.cli.formats import Format
from bai.cli.nodes.check import resolve_nodes
from bai.settings import Settings

if TYPE_CHECKING:
    from reconciler.workspace.enforcement import CheckedMeans


def check_parts(settings: Settings, names: Sequence[str], format: Format) -> bool:
    """Print what came of each means on each node; False when one does not hold that its group demands."""
    from reconciler.workspace.enforcement import check_enforcement

    with settings.reading_workspace() as workspace:
        nodes = [node.name for node in resolve_nodes(workspace.desired(), names)]
        found = check_enforcement(workspace, nodes)
    if format is Format.json:
        _print_json(found)
    else:
        _print(settings, found)
    return all(each.good for each in found)


def _print_json(found: Sequence[CheckedMeans]) -> None:
    from bai.cli.output import print_json

    print_json("bai.enforcement-check/v1", nodes=[dataclasses.asdict(each) for each in found])


def _print(settings: Settings, found: Sequence[CheckedMeans]) -> None:
    """Means that are neither there nor demanded are only worth a line where a node has none at all."""
    from bai.cli.output import print_line, print_table
    from bai.render.humanize import clean

    shown = [each for each in found if each.demanded or each.outcome != "missing"]
    rows = [
        [each.node, each.means, "yes" if each.demanded else "no", each.outcome, clean(each.version)]
        for each in shown
    ]
    if rows:
        print_table(settings, ["node", "means", "demanded", "result", "version"], rows)
    for each in shown:
        print_line(f"\n{clean(each.node)}, {each.means}: {clean(each.why)}")
    for node in sorted({each.node for each in found} - {each.node for each in shown}):
        reasons = dict.fromkeys(each.why for each in found if each.node == node)
        print_line(
            f"{clean(node)}: it has nothing to enforce parts of GPUs with: {clean('; '.join(reasons))}"
        )
