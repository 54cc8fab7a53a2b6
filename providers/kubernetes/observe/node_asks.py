"""Requests for nodes as they are, and nodes of their pools that no document names: views that stay up to
date where a group of the cluster asks for nodes, and nothing where none does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from providers.autoscaling.values import AskedNodes, NodeAsks
from providers.kubernetes.api.client import ApiClient, Object
from providers.kubernetes.api.errors import FORBIDDEN, NOT_FOUND, ApiRefusal
from providers.kubernetes.api.reflector import Reflector, View
from providers.kubernetes.objects.node_request import API, RESOURCE, parse_anchor, parse_request
from providers.kubernetes.observe.nodes import ClusterNode
from schemas.kinds.parts.kubernetes import Kubernetes

NO_API = (
    "the cluster has no ProvisioningRequests (autoscaling.x-k8s.io/v1), which come with cluster-autoscaler"
)
NO_PERMISSION = (
    "bai may not see ProvisioningRequests and PodTemplates: "
    "deploy/kubernetes/node-requests.yaml has the permission"
)


@dataclass(frozen=True, slots=True)
class SeenAsks:
    """At one moment. `why_not`: why they cannot be seen."""

    requests: View[AskedNodes]
    anchors: View[AskedNodes]
    why_not: str = ""

    @property
    def revisions(self) -> tuple[int, int, str]:
        """What differs when anything has changed."""
        return self.requests.revision, self.anchors.revision, self.why_not


NOTHING = SeenAsks(View({}, -1), View({}, -1))


class NodeAskWatch:
    """May be used by several threads."""

    def __init__(self, client: ApiClient, options: Kubernetes) -> None:
        self._options = options
        self.requests: Reflector[AskedNodes] = Reflector(client, f"{API}/{RESOURCE}", self._request)
        self.anchors: Reflector[AskedNodes] = Reflector(client, "/api/v1/podtemplates", self._anchor)

    def look(self) -> SeenAsks:
        """Raises ApiRefusal, OSError."""
        if not self._options.provisioning_requests:
            return NOTHING
        try:
            return SeenAsks(self.requests.look(), self.anchors.look())
        except ApiRefusal as refusal:
            if refusal.status not in (FORBIDDEN, NOT_FOUND):
                raise
            return replace(NOTHING, why_not=NO_API if refusal.status == NOT_FOUND else NO_PERMISSION)

    def close(self) -> None:
        self.requests.close()
        self.anchors.close()

    def _request(self, found: Object) -> AskedNodes | None:
        return parse_request(found, self._options)

    def _anchor(self, found: Object) -> AskedNodes | None:
        return parse_anchor(found, self._options)


def joined(
    requests: Iterable[AskedNodes], anchors: Iterable[AskedNodes]
) -> dict[tuple[str, str], AskedNodes]:
    """Each request as a whole; one that lacks its first PodTemplate, or is not there beside that, is
    incomplete. Pure."""
    found = {each.key: replace(each, state="incomplete") for each in requests}
    states = {each.key: each for each in requests}
    for anchor in anchors:
        whole = states.get(anchor.key)
        found[anchor.key] = (
            replace(whole, anchor_uid=anchor.anchor_uid, token=anchor.token) if whole else anchor
        )
    return found


def node_asks(
    seen: SeenAsks, nodes: Iterable[ClusterNode], wanted: frozenset[str], options: Kubernetes
) -> NodeAsks | None:
    """None where no group asks for nodes. `wanted`: nodes that documents name. Pure."""
    if not options.provisioning_requests:
        return None
    found = joined(seen.requests.objects.values(), seen.anchors.objects.values())
    return NodeAsks(found, _unnamed(nodes, wanted, options), seen.why_not)


def _unnamed(
    nodes: Iterable[ClusterNode], wanted: frozenset[str], options: Kubernetes
) -> Mapping[str, tuple[str, ...]]:
    strangers = [each for each in nodes if each.name not in wanted and not each.unreachable]
    found = {}
    for group, pool in options.provisioning_requests.items():
        selector = pool.node_selector.items()
        names = sorted(each.name for each in strangers if selector <= each.labels.items())
        if names:
            found[group] = tuple(names)
    return found


def kept_labels(options: Kubernetes) -> frozenset[str]:
    """Labels of nodes that tell whose pool they are of."""
    return frozenset(key for pool in options.provisioning_requests.values() for key in pool.node_selector)
