"""Making a kernel: its pod, which nobody binds but bai, what goes with it, its devices; the binding last,
with which it starts. Each step finds what an attempt that was cut off has made, and the next one goes on
there.
"""

from __future__ import annotations

from collections.abc import Sequence

from providers.base import Fence, KernelSpec
from providers.kubernetes.api.client import STRATEGIC, ApiClient, Object
from providers.kubernetes.api.credentials import NAME
from providers.kubernetes.api.errors import CONFLICT, NOT_FOUND, ApiRefusal, api_errors
from providers.kubernetes.objects.claim import split_devices
from providers.kubernetes.objects.device import Device
from providers.kubernetes.objects.names import PodRef, namespaced
from providers.kubernetes.objects.pod import beside, owner_reference, pod_manifest, service_manifest
from providers.kubernetes.objects.sharing import rule_of
from providers.kubernetes.observe.nodes import ClusterNode
from providers.kubernetes.observe.observer import Observer
from providers.kubernetes.observe.pods import is_ours
from providers.kubernetes.pods.counted import require_counted
from providers.kubernetes.pods.devices import allocate, divide, wanted_devices
from providers.kubernetes.pods.find import get_or_none
from providers.kubernetes.pods.volume_claims import tell_provisioners
from schemas.kinds.parts.kubernetes import Kubernetes
from schemas.problems.errors.kernel import KernelRefused
from schemas.problems.errors.provider import ProviderUnavailable


def create_pod(
    client: ApiClient,
    options: Kubernetes,
    ref: PodRef,
    spec: KernelSpec,
    observer: Observer,
    fence: Fence,
    *,
    again: bool = False,
) -> Object:
    """The pod, bound to its node; one that is bound already is left as it is. `again`: it is looked for
    before it is made. Raises KernelRefused, ProviderUnavailable, ProviderError, and what `fence` raises."""
    with api_errors(spec.id, making=True):
        pod = get_or_none(client, ref.path) if again else None
        if pod is not None and _is_bound(_ours(pod, options, spec)):
            return pod
        node = _require_node(observer, spec)
        asked = spec.devices or spec.nics or spec.cpus
        devices = _find_devices(observer, spec) if asked else ()
        if pod is None:
            pod = _make_or_find(client, options, ref, spec, observer, devices)
        if _is_bound(pod):
            return pod
        for resource, body in beside(spec, pod):
            _make_if_missing(client, namespaced(resource, ref.namespace), body)
        tell_provisioners(client, ref.namespace, spec)
        if spec.network.name:
            _join_service(client, ref, spec.network.name, pod)
        if devices:
            allocate(client, observer, spec, ref, pod, devices, fenced=node.fenced)
        require_counted(observer, spec, pod, node)
        fence()
        return _bind(client, ref, spec.labels.node, pod)


def _is_bound(pod: Object) -> bool:
    return bool(pod["spec"].get("nodeName"))


def _ours(pod: Object, options: Kubernetes, spec: KernelSpec) -> Object:
    """A pod of this name, as an attempt that was cut off has made it. Raises KernelRefused where it is not
    bai's, ProviderUnavailable where it is going."""
    about = pod["metadata"]
    if not is_ours(pod, options):
        why = f"a pod of this name is in namespace {about['namespace']} that is not bai's"
        raise KernelRefused(provider=NAME, kernel=spec.id, why=why, hint="remove or rename it")
    if about.get("deletionTimestamp"):
        raise ProviderUnavailable(provider=NAME, why=f"pod {about['name']} is still being deleted")
    return pod


def _find_devices(observer: Observer, spec: KernelSpec) -> tuple[Device, ...]:
    """By what was last seen; looks again before it gives up. Raises KernelRefused."""
    node = spec.labels.node
    try:
        return wanted_devices(spec, observer.last_devices().of(node), observer.told_cores)
    except KernelRefused:
        return wanted_devices(spec, observer.devices().of(node), observer.told_cores)


def _require_node(observer: Observer, spec: KernelSpec) -> ClusterNode:
    """Binding asks nobody whether the node takes pods: we do. Raises ProviderUnavailable."""
    name = spec.labels.node
    node = observer.nodes.look().objects.get(("", name))
    if node is None:
        raise ProviderUnavailable(provider=NAME, why=f"the cluster has no node {name}")
    if node.unreachable or node.cordoned:
        raise ProviderUnavailable(provider=NAME, why=f"node {name}: {node.unreachable or node.cordoned}")
    return node


def _make_or_find(
    client: ApiClient,
    options: Kubernetes,
    ref: PodRef,
    spec: KernelSpec,
    observer: Observer,
    devices: Sequence[Device],
) -> Object:
    own, parts = divide(spec, devices)
    shared = observer.shared_names(ref.namespace, parts, rule_of(spec.share))
    claims = len(split_devices(own))
    body = pod_manifest(spec, ref, options, ref.new_given(), claims=claims, shared=shared)
    try:
        return client.create(namespaced("pods", ref.namespace), body)
    except ApiRefusal as refusal:
        if refusal.status == NOT_FOUND and "namespaces" in refusal.message:
            hint = f"kubectl create namespace {ref.namespace}"
            why = f"the cluster has no namespace {ref.namespace}"
            raise KernelRefused(provider=NAME, kernel=spec.id, why=why, hint=hint) from None
        # A quota refuses it as well where it is there already, and counts.
        found = get_or_none(client, ref.path)
        if found is None:
            raise
        return _ours(found, options, spec)


def _make_if_missing(client: ApiClient, path: str, body: Object) -> None:
    try:
        client.create(path, body)
    except ApiRefusal as refusal:
        if refusal.reason != "AlreadyExists":
            raise


def _join_service(client: ApiClient, ref: PodRef, name: str, pod: Object) -> None:
    """The service of the session's names is there for as long as one of its pods is."""
    path = namespaced("services", ref.namespace)
    owner = owner_reference(pod)
    try:
        client.create(path, service_manifest(name, ref.namespace, owner))
    except ApiRefusal as refusal:
        if refusal.reason != "AlreadyExists":
            raise
    else:
        return
    try:
        client.patch(f"{path}/{name}", {"metadata": {"ownerReferences": [owner]}}, kind=STRATEGIC)
    except ApiRefusal as refusal:
        if refusal.status != NOT_FOUND:
            raise
        why = f"service {ref.namespace}/{name} was removed while pod {ref.name} joined it"
        raise ProviderUnavailable(provider=NAME, why=why) from None


def _bind(client: ApiClient, ref: PodRef, node: str, pod: Object) -> Object:
    """The pod, bound: by us, or by another attempt at the same time."""
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": ref.name, "namespace": ref.namespace, "uid": pod["metadata"]["uid"]},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    try:
        client.create(f"{ref.path}/binding", body)
    except ApiRefusal as refusal:
        found = get_or_none(client, ref.path)
        if found is None or found["metadata"]["uid"] != pod["metadata"]["uid"]:
            why = f"pod {ref.name} was removed while it was made"
            raise ProviderUnavailable(provider=NAME, why=why) from None
        if refusal.status != CONFLICT or found["spec"].get("nodeName") != node:
            raise
        return found
    return {**pod, "spec": {**pod["spec"], "nodeName": node}}
