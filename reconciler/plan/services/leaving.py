"""Which nodes replicas have to leave. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from planner.model.plan_time import PlanTime
from reconciler.plan.node_rollout import NodeRollout
from reconciler.values.state import Actual, Desired
from schemas.values.resource_ref import ref_of

LOST_GRACE = 30.0
"""Seconds after which a node that is not reached counts as lost for replicas, which are made anew elsewhere
then: others wait as their resource group says."""


def leaving_nodes(
    desired: Desired, actual: Actual, rollout: NodeRollout | None, time: PlanTime
) -> Mapping[str, str]:
    """Node → what it has become: drained, no longer among the documents, next to be provisioned, or lost.

    `rollout`: as it stands before services have decided anything; None where no node is provisioned. A node
    whose drain is forced is not among them: its sessions are stopped there at once.
    """
    if not desired.services:
        return {}
    nodes = {node.name: node for node in desired.nodes}
    found = dict.fromkeys(rollout.clearing if rollout is not None else (), "to be provisioned")
    for name, node in nodes.items():
        if node.spec.state == "drained" and not node.spec.drain.force:
            found[name] = "drained"
    for identity in actual.existing.keys() - desired.sessions().keys():
        placement = actual.existing[identity].recorded.placement
        if placement is not None and ref_of(identity).kind == "Session":
            gone = {part.node for part in placement.kernels} - nodes.keys()
            found |= dict.fromkeys(sorted(gone), "not in the repository")
    for name, missed in actual.missed.items():
        if missed.since is not None and time.passed(missed.since + LOST_GRACE):
            found[name] = "not reached"
    return found
