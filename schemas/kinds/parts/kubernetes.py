"""Options of the kubernetes provider (`Cluster.spec.kubernetes`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Annotated, Any

from pydantic import AfterValidator, Field, Strict, WithJsonSchema

from schemas.problems.issues import value_error
from schemas.problems.text import format_value
from schemas.values.envelope import Flag, Model
from schemas.values.names import AbsolutePath, LabelKey, LabelValue, Name, NodeName, Text

PROJECT = "{project}"


NAMESPACE_PATTERN = (
    r"^(?!kube-)(?=.{1,63}$)[a-z0-9]([-a-z0-9]*(-\{project\}([-a-z0-9]*[a-z0-9])?|[a-z0-9]))?$"
)
"""A word and `-` before `{project}`, so that no project's name makes it one of Kubernetes' own."""
_NAMESPACE = re.compile(NAMESPACE_PATTERN.removesuffix("$") + r"\Z")


def _validate_namespace(value: str) -> str:
    if _NAMESPACE.match(value):
        return value
    hint = f"such as bai or team-{PROJECT}"
    if value.startswith("kube-"):
        message = f"{format_value(value)} is a namespace of Kubernetes' own, where nobody else makes pods"
        raise value_error(message, hint, "BAI-V033")
    raise value_error(f"{format_value(value)} is no name of a namespace", hint, "BAI-V033")


Namespace = Annotated[
    str,
    AfterValidator(_validate_namespace),
    WithJsonSchema({"type": "string", "pattern": NAMESPACE_PATTERN}),
]


PRIORITY_CLASS_PATTERN = r"^(?!system-)[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
"""Kubelets drive out other pods for those of a `system-` class, whoever made them."""
_PRIORITY_CLASS = re.compile(PRIORITY_CLASS_PATTERN.removesuffix("$") + r"\Z")


def _validate_priority_class(value: str) -> str:
    if _PRIORITY_CLASS.match(value):
        return value
    if value.startswith("system-"):
        message = f"for pods of {format_value(value)} kubelets drive out those of others"
        raise value_error(message, "name a PriorityClass of your own", "BAI-V033")
    raise value_error(f"{format_value(value)} is no name of a PriorityClass", code="BAI-V033")


PriorityClass = Annotated[
    str,
    AfterValidator(_validate_priority_class),
    WithJsonSchema({"type": "string", "pattern": PRIORITY_CLASS_PATTERN}),
]


class NodeProvisioning(Model):
    """New nodes for one resource group: the loop asks cluster-autoscaler for them, with a ProvisioningRequest
    for each session that waits for nothing but room. Each node costs what it costs."""

    node_selector: Annotated[Mapping[LabelKey, LabelValue], Field(min_length=1)]
    """Labels, in Kubernetes, of the nodes of the group's pool, so that no other pool grows."""
    taints: tuple[LabelKey, ...] = ()
    """Keys of the pool's taints, beside `bai.dev/node`, such as `nvidia.com/gpu`."""
    max_nodes: Annotated[int, Strict(), Field(ge=1, le=32)] = 4
    """So many nodes are asked for at a time, by all sessions of the group together."""


class Kubernetes(Model):
    """How a cluster's API server is reached, and what its sessions' pods have in common. The kubeconfig is
    that of whoever runs bai (`KUBECONFIG`, or `~/.kube/config`): a repository cannot name a file, since a
    kubeconfig may run programs."""

    context: Text | None = None
    """Context of that kubeconfig; its current one when left out, or, where bai runs in a pod, the pod's own
    service account."""
    namespace: Namespace = "bai"
    """Where pods are made. With `{project}` in it, each project has its own, which may have a quota. It must
    be there, and be bai's: whoever may write in it is trusted like bai."""
    cluster_domain: NodeName = "cluster.local"
    """Of the cluster's names; members of a session find each other by it."""
    image_pull_secrets: tuple[Name, ...] = ()
    """Secrets of the namespace, of type `kubernetes.io/dockerconfigjson`, by which images are pulled."""
    runtime_class: Name | None = None
    """Of the pods, where it is not the cluster's default."""
    priority_class: PriorityClass | None = None
    """PriorityClass of the pods, where it is not the cluster's default: the lower it is, the sooner a node
    short of memory or disk evicts them, and other schedulers' preemption takes their room. It must be
    there."""
    mps: Flag = False
    """NVIDIA's DRA driver of this cluster, 0.5 or later, has its feature gate `MPSSupport` on: groups with
    `enforcement: mps` give parts of GPUs. Nothing of the cluster tells that."""
    host_path_roots: tuple[AbsolutePath, ...] = ()
    """Folders of the nodes in which roots of storage hosts may lie; pods are given none elsewhere
    (`hostPath`). Needs a namespace that is neither `restricted` nor `baseline`."""
    probe_image: Text | None = None
    """Image of the pods by which `bai nodes probe` looks at nodes: any with `python3`, 3.8 or newer, such as
    bai's own (`deploy/container`)."""
    probe_namespace: Namespace | None = None
    """Where these pods are made; `namespace` when left out, so that it is needed where that has `{project}`
    in it."""

    provisioning_requests: Mapping[Name, NodeProvisioning] = {}
    """Resource group → how nodes are asked for when its sessions have no room; none are for groups that are
    not here."""

    @property
    def several_namespaces(self) -> bool:
        """Whether each project has its own."""
        return PROJECT in self.namespace

    @property
    def namespace_of_probes(self) -> str:
        """Empty where nobody has said one."""
        found = self.probe_namespace or self.namespace
        return "" if PROJECT in found else found

    def namespace_of(self, project: str) -> str:
        return self.namespace.replace(PROJECT, project)

    def project_of(self, namespace: str) -> str:
        """The project that has this namespace for itself; empty where none has."""
        before, several, after = self.namespace.partition(PROJECT)
        inner = namespace[len(before) : len(namespace) - len(after)] if several else ""
        return inner if inner and self.namespace_of(inner) == namespace else ""

    def may_be_ours(self, namespace: str) -> bool:
        """Whether it is the namespace, or may be a project's."""
        before, found, after = self.namespace.partition(PROJECT)
        if not found:
            return namespace == self.namespace
        return namespace.startswith(before) and namespace.endswith(after)

    def allows_host_path(self, path: PurePosixPath) -> bool:
        """Whether it lies in one of the folders that pods may be given."""
        roots = (PurePosixPath("/", root.lstrip("/")) for root in self.host_path_roots)
        return any(path.is_relative_to(root) for root in roots)

    @property
    def options_set(self) -> dict[str, Any]:
        """What was said, as written."""
        return self.model_dump(by_alias=True, exclude_none=True, exclude_unset=True)
