"""What sessions of a Kubernetes cluster cannot have, said before a plan rather than by the cluster."""

from __future__ import annotations

from collections.abc import Iterator

from schemas.kinds.cluster import Cluster
from schemas.kinds.resource_group import ResourceGroup
from schemas.kinds.session import Session
from schemas.problems.issues import Issue
from schemas.rules.sessions.request_rules import written_requests
from schemas.values.linux_users import is_root, numeric_id


def pod_rules(session: Session, group: ResourceGroup, cluster: Cluster) -> Iterator[Issue]:
    """Nothing for clusters of other providers."""
    if cluster.spec.provider != "kubernetes":
        return
    spec = session.spec
    if spec.container.ulimits:
        message = "Kubernetes gives pods no ulimits"
        hint = "leave it out, or set them for the nodes' container runtime"
        yield Issue(("spec", "container", "ulimits"), message, hint, "BAI-V050", key=True)
    user, _, users = (spec.container.user or "").partition(":")
    if any(word and not is_root(word) and numeric_id(word) is None for word in (user, users)):
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
        yield from _part_rules(slot, group, cluster)


def _part_rules(slot: str, group: ResourceGroup, cluster: Cluster) -> Iterator[Issue]:
    """What keeps a session from parts of such devices."""
    options, means = cluster.spec.kubernetes, group.spec.fractional.enforcement
    hint = f"ask for {slot.partition('.')[0]}.device"
    if not slot.startswith("cuda."):
        message = f"{slot}: of these, pods are given whole devices"
    elif options.several_namespaces:
        message = f"{slot}: a GPU is shared within one namespace, and each project has its own here"
    elif means == "hami":
        message = f"{slot}: group {group.name} demands hami, and pods have only what their driver offers"
        hint += ", or let the group demand mps"
    elif means == "mps" and not options.mps:
        message = f"{slot}: group {group.name} demands mps, which the cluster does not say that it has"
        hint += ", or write `mps: true` in `spec.kubernetes` of the cluster, if its NVIDIA driver has it"
    else:
        return
    yield Issue(("spec", "resources"), message, hint, "BAI-V050")
