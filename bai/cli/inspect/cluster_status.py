"""What `bai status` shows, gathered: from the store what loops wrote, from the nodes what runs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bai.render.resources.cluster_status import ClusterStatus
    from reconciler.workspace.workspace import Workspace


def read_cluster_status(workspace: Workspace) -> ClusterStatus:
    """Raises what opening store and provider raises."""
    from bai.cli.inspect.loop_status import read_loop_status
    from bai.cli.inspect.resource_list import find_waits
    from bai.cli.nodes.node_infos import node_infos
    from bai.render.resources.cluster_status import ClusterStatus, count_gpus, count_queue
    from bai.render.resources.status import session_rows
    from reconciler.values.records import HOLDING

    desired, actual = workspace.desired(), workspace.actual()
    rows = session_rows(actual, desired.digests, workspace.clock.now())
    held = [
        item.recorded.placement
        for item in actual.existing.values()
        if item.recorded.placement is not None and item.phase in HOLDING
    ]
    return ClusterStatus(
        cluster=desired.cluster,
        commit=desired.commit,
        loop=read_loop_status(workspace),
        queue=count_queue(rows, find_waits(workspace, actual)),
        gpus=count_gpus(node_infos(desired, actual).values(), held, actual.missed),
        phases=dict(sorted(Counter(row.phase for row in rows).items())),
        running=tuple(row for row in rows if row.phase == "RUNNING"),
        complete=actual.complete,
    )
