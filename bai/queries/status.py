"""`bai status`: from the store what loops wrote, from the nodes what runs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from bai.queries.facts.node_infos import node_infos
from bai.render.printout import Printout
from bai.render.resources.cluster_status import (
    ClusterStatus,
    count_gpus,
    count_queue,
    status_json,
    status_overview,
)
from bai.render.resources.status import session_facts
from reconciler.values.records import HOLDING

if TYPE_CHECKING:
    from bai.queries.models import StatusQuery
    from bai.queries.view import ClusterView


def answer(view: ClusterView, query: StatusQuery) -> Printout:
    """One screen."""
    found = read_cluster_status(view)
    if query.form == "json":
        return Printout("bai.status/v1", status_json(found))
    return Printout(blocks=(status_overview(found),))


def read_cluster_status(view: ClusterView) -> ClusterStatus:
    """Raises what looking raises."""
    desired, actual = view.desired, view.actual
    sessions = session_facts(actual, desired.digests, view.now)
    held = [
        item.recorded.placement
        for item in actual.existing.values()
        if item.recorded.placement is not None and item.phase in HOLDING
    ]
    return ClusterStatus(
        cluster=desired.cluster,
        commit=desired.commit,
        loop=view.loop,
        queue=count_queue(sessions, view.waits),
        gpus=count_gpus(node_infos(desired, actual).values(), held, actual.missed),
        phases=dict(sorted(Counter(each.phase for each in sessions).items())),
        running=tuple(each for each in sessions if each.phase == "RUNNING" and view.sees(each.id)),
        complete=actual.complete,
    )
