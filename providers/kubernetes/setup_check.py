"""Whether a cluster has what bai needs of it, and lets bai do it: what `bai doctor` says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from providers.abilities import SetupCheck
from providers.kubernetes.api.client import ApiClient
from providers.kubernetes.api.errors import NOT_FOUND, ApiRefusal, api_errors
from providers.kubernetes.objects.names import RESOURCE_API
from providers.kubernetes.objects.node_request import API
from providers.kubernetes.observe.node_asks import NO_API
from providers.kubernetes.observe.observer import Observer
from providers.kubernetes.observe.plugins.offers import devices_given
from schemas.kinds.parts.kubernetes import Kubernetes
from schemas.problems.errors.base import BaiError

_RESOURCE = "resource.k8s.io"
_CLAIM_VERBS = ("create", "delete", "get", "list", "patch", "watch")
_WATCHED = (
    ("", "nodes"), ("", "pods"), ("", "resourcequotas"), ("", "limitranges"),
    (_RESOURCE, "resourceslices"), (_RESOURCE, "deviceclasses"), (_RESOURCE, "resourceclaims"),
)  # fmt: skip
EVERYWHERE = (
    *((group, resource, "", verb) for group, resource in _WATCHED for verb in ("list", "watch")),
    (_RESOURCE, "resourceclaims", "binding", "update"),
)
"""API group, resource, subresource and verb that bai needs in the whole cluster."""
INSIDE = (
    ("", "pods", "", "create"), ("", "pods", "", "delete"), ("", "pods", "", "patch"),
    ("", "pods", "binding", "create"), ("", "pods", "log", "get"), ("", "pods", "exec", "create"),
    ("", "secrets", "", "create"), ("", "secrets", "", "delete"), ("", "configmaps", "", "create"),
    ("", "configmaps", "", "delete"), ("", "services", "", "create"), ("", "services", "", "patch"),
    ("", "events", "", "list"), ("", "events", "", "watch"),
    *(("", "persistentvolumeclaims", "", verb) for verb in _CLAIM_VERBS),
    *((_RESOURCE, "resourceclaims", "", verb) for verb in ("create", "patch", "delete")),
    (_RESOURCE, "resourceclaims", "status", "update"),
)  # fmt: skip
"""The same, in the namespace where it makes pods."""
_SCALING = "autoscaling.x-k8s.io"
ASKED_EVERYWHERE = tuple(
    (group, resource, "", verb)
    for group, resource in ((_SCALING, "provisioningrequests"), ("", "podtemplates"))
    for verb in ("list", "watch")
)
"""What bai needs beside, where a group asks for nodes; in the whole cluster."""
ASKED_INSIDE = tuple(
    (group, resource, "", verb)
    for group, resource in ((_SCALING, "provisioningrequests"), ("", "podtemplates"))
    for verb in ("create", "delete")
)
Right = tuple[str, str, str, str]


def check_setup(client: ApiClient, observer: Observer, options: Kubernetes) -> Iterator[SetupCheck]:
    """Never raises."""
    try:
        with api_errors():
            version = str(client.get("/version").get("gitVersion"))
        yield SetupCheck("api server", f"Kubernetes {version} at {client.access.server}")
        yield from _devices(client, observer)
        yield from _permissions(client, options)
        if options.provisioning_requests:
            yield from _node_requests(client, options)
    except BaiError as error:
        yield SetupCheck("api server", error.message, failed=True, hint=error.hint)


def _devices(client: ApiClient, observer: Observer) -> Iterator[SetupCheck]:
    name = "devices"
    counted = _counted(observer)
    if _has_api(client, RESOURCE_API):
        with api_errors():
            published = observer.devices().all
        nodes: dict[str, set[str]] = {}
        for device in published:
            nodes.setdefault(device.driver, set()).add(device.node)
        said = ", ".join(f"{driver} on {len(where)}" for driver, where in sorted(nodes.items()))
        yield SetupCheck(name, f"published by {said} nodes" if said else "no DRA driver publishes any")
    elif not counted:
        hint = "Kubernetes 1.34 and later have it; sessions without GPUs run all the same"
        yield SetupCheck(name, "the server has no resource.k8s.io/v1", failed=True, hint=hint)
    if counted:
        text = f"{counted}: how many a session has is kept to, which ones is the kubelet's choice"
        yield SetupCheck("device plugins", text)


def _counted(observer: Observer) -> str:
    """Which devices plugins count, where no driver publishes them, in words."""
    with api_errors():
        devices = observer.devices()
        nodes = observer.nodes.look().objects.values()
    found: Counter[str] = Counter()
    for node in nodes:
        found.update(each.resource for each in devices_given(node, devices.of(node.name)))
    return ", ".join(
        f"{name} on {count} {'node' if count == 1 else 'nodes'}" for name, count in sorted(found.items())
    )


def _has_api(client: ApiClient, group: str) -> bool:
    """Whether the server has this version of an API group."""
    with api_errors():
        try:
            client.get(group)
        except ApiRefusal as refusal:
            if refusal.status != NOT_FOUND:
                raise
            return False
    return True


def _node_requests(client: ApiClient, options: Kubernetes) -> Iterator[SetupCheck]:
    """Whether nodes can be asked for, as groups of the cluster do."""
    name = "node requests"
    if not _has_api(client, API):
        hint = "cluster-autoscaler's repository has the CRD; it needs --enable-provisioning-requests"
        yield SetupCheck(name, NO_API, failed=True, hint=hint)
        return
    missing = _missing(client, options, ASKED_EVERYWHERE, ASKED_INSIDE)
    groups = ", ".join(sorted(options.provisioning_requests))
    if missing:
        hint = "deploy/kubernetes/node-requests.yaml has what bai needs"
        yield SetupCheck(name, f"may not {'; '.join(missing)}", failed=True, hint=hint)
    else:
        yield SetupCheck(name, f"ProvisioningRequests can be made, for {groups}")


def _missing(
    client: ApiClient, options: Kubernetes, everywhere: Sequence[Right], inside: Sequence[Right]
) -> list[str]:
    """What is not granted, in words."""
    place = "" if options.several_namespaces else options.namespace
    asked = [*((right, "") for right in everywhere), *((right, place) for right in inside if place)]
    with api_errors(), ThreadPoolExecutor(8, "bai-may") as pool:
        allowed = list(pool.map(lambda each: _may(client, *each), asked))
    return [_words(*each) for each, may in zip(asked, allowed, strict=True) if not may]


def _permissions(client: ApiClient, options: Kubernetes) -> Iterator[SetupCheck]:
    missing = _missing(client, options, EVERYWHERE, INSIDE)
    if missing:
        hint = "deploy/kubernetes/rbac.yaml has what bai needs"
        yield SetupCheck("permissions", f"may not {'; '.join(missing)}", failed=True, hint=hint)
    else:
        yield SetupCheck("permissions", f"all that bai needs, in namespace {options.namespace}")


def _may(client: ApiClient, right: Right, namespace: str) -> bool:
    group, resource, part, verb = right
    attributes = {
        "group": group,
        "resource": resource,
        "subresource": part,
        "verb": verb,
        "namespace": namespace,
    }
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    answer = client.create("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body)
    return bool((answer.get("status") or {}).get("allowed"))


def _words(right: Right, namespace: str) -> str:
    _, resource, part, verb = right
    return f"{verb} {resource}{'/' if part else ''}{part}" + (f" in {namespace}" if namespace else "")
