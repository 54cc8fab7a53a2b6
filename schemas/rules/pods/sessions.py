"""What sessions of a Kubernetes cluster cannot have, said before a plan rather than by the cluster."""

from __future__ import annotations

from collections.abc import Iterator

from schemas.kinds.cluster import Cluster
from schemas.kinds.session import Session
from schemas.problems.issues import Issue
from schemas.rules.request_rules import written_requests
from schemas.values.linux_users import is_root, numeric_id


def pod_rules(session: Session, cluster: Cluster) -> Iterator[Issue]:
    """Nothing for clusters of other providers."""
    if cluster.spec.provider != "kubernetes":
        return
    spec = session.spec
    if spec.container.ulimits:
        message = "Kubernetes gives pods no ulimits"
        hint = "leave it out, or set them for the nodes' container runtime"
        yield Issue(("spec", "container", "ulimits"), message, hint, "BAI-V050", key=True)
    user, _, group = (spec.container.user or "").partition(":")
    if any(word and not is_root(word) and numeric_id(word) is None for word in (user, group)):
        message = "users of pods are numbers: what an image calls them is known to its nodes alone"
        yield Issue(("spec", "container", "user"), message, "write the number", "BAI-V050")
    for index, port in enumerate(spec.ports):
        if port.publish:
            message = "a port at its node's address is what restricted pods may not have"
            hint = "leave it out: `bai port-forward` reaches it, and so do the session's other containers"
            yield Issue(("spec", "ports", index, "publish"), message, hint, "BAI-V050", key=True)
    for at, resources in written_requests(session):
        if any(resources.hugepages.values()) and not resources.cpu and not resources.memory:
            message = "Kubernetes gives huge pages only beside CPU or memory"
            yield Issue(at, message, "ask for memory, too", "BAI-V050")
    shared = (
        slot for each in spec.containers for slot in each.resources.accelerators if slot.endswith(".shares")
    )
    for slot in dict.fromkeys(shared):
        message = f"{slot}: pods are given whole GPUs and MIG devices"
        yield Issue(("spec", "resources"), message, f"ask for {slot.partition('.')[0]}.device", "BAI-V050")
