"""The nodes of the repository's clusters: whether they let bai in, and whether their providers answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from bai.cli.doctor.check import Finding

if TYPE_CHECKING:
    from bai.settings import Settings


def nodes(settings: Settings) -> Iterator[Finding]:
    """A finding for each that cannot be used, and one for all the others."""
    from bai.cli.nodes.check import check_reachability
    from bai.render.humanize import plural
    from schemas.problems.errors.base import BaiError

    try:
        with settings.reading_workspace() as workspace:
            native = workspace.cluster.spec.provider == "process"
            wanted = set() if native else {node.name for node in workspace.endpoints()}
            found, silent = check_reachability(workspace, wanted) if wanted else ((), {})
    except BaiError as error:
        yield Finding("nodes", "skipped", f"not asked: {error.message}", error.hint)
        return
    if not found:
        yield Finding("nodes", "skipped", "none but this machine")
        return
    for one in found:
        if one.problem:
            yield Finding(f"node {one.node}", "failed", one.problem, one.hint)
        elif one.node in silent:
            yield Finding(f"node {one.node}", "failed", silent[one.node])
    fine = [one for one in found if not one.problem and one.node not in silent]
    if fine:
        slowest = max(one.seconds for one in fine)
        said = f"answered within {slowest:.1f} s" if fine[0].address else "ready, by their cluster"
        yield Finding("nodes", "ok", f"{plural(len(fine), 'node')} {said}")
