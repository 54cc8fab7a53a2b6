"""A request for nodes as objects of the API: a ProvisioningRequest of cluster-autoscaler's, a PodTemplate for
each node, and a claim for the GPUs of each. Pure.

The claims are named, not made from templates: cluster-autoscaler places pods that nobody has created, whose
claims of templates nobody makes (kubernetes/autoscaler#10065). Nobody ever gives these claims devices, as no
pod has them. All is owned by the first PodTemplate, and goes with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from providers.autoscaling.values import AskedNodes, NodeNeed, NodeRequest, RequestState, owner_mark
from providers.kubernetes.objects.amounts import PAGES
from providers.kubernetes.objects.claim import MOST_DEVICES
from providers.kubernetes.objects.counted import WHOLE_DEVICES
from providers.kubernetes.objects.labels import MANAGED
from providers.kubernetes.objects.names import CONTAINER, PREFIX, TAINT
from schemas.kinds.parts.kubernetes import Kubernetes

API = "/apis/autoscaling.x-k8s.io/v1"
RESOURCE = "provisioningrequests"
REQUEST = f"{PREFIX}node-request"
"""The label with the request's name, of all that belongs to one."""
TOKEN = f"{PREFIX}token"
"""The annotation of the first PodTemplate by which the others and the claims are called: names that no
earlier request had, whose objects may be about to go."""
OWNER = f"{PREFIX}owner"
CLASS = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
DEVICE_CLASSES = {"cuda.device": "gpu.nvidia.com", "rocm.device": "gpu.amd.com"}
_IMAGE = "registry.k8s.io/pause:3.10"
"""Never pulled: nobody makes pods of these templates."""
_LONGEST = 300


def request_path(namespace: str, name: str = "") -> str:
    return f"{API}/namespaces/{namespace}/{RESOURCE}" + (f"/{name}" if name else "")


def template_path(namespace: str, name: str = "") -> str:
    return f"/api/v1/namespaces/{namespace}/podtemplates" + (f"/{name}" if name else "")


def request_labels(request: NodeRequest) -> dict[str, str]:
    return {**MANAGED, OWNER: owner_mark(request.repo, request.cluster), REQUEST: request.name}


def template_manifests(
    request: NodeRequest, token: str, counted: frozenset[str] = frozenset()
) -> list[dict[str, Any]]:
    """One for each node; all others are owned by the first, once that is there. `counted`: slots of devices
    that nodes count (`nvidia.com/gpu`), and that no claim can ask for."""
    return [
        {
            "apiVersion": "v1",
            "kind": "PodTemplate",
            "metadata": {
                "name": _template_name(request, token, number),
                "namespace": request.namespace,
                "labels": request_labels(request),
                "annotations": {f"{PREFIX}session": request.session, TOKEN: token},
            },
            "template": {
                "metadata": {"labels": request_labels(request)},
                "spec": _pod_spec(request, need, claim_names(request, token, number, counted), counted),
            },
        }
        for number, need in enumerate(request.nodes)
    ]


def claim_manifests(
    request: NodeRequest, token: str, counted: frozenset[str] = frozenset()
) -> Iterator[dict[str, Any]]:
    for number, need in enumerate(request.nodes):
        names = claim_names(request, token, number, counted)
        for name, (slot, count) in zip(names, _shares(need, counted), strict=True):
            exactly = {
                "deviceClassName": DEVICE_CLASSES[slot], "allocationMode": "ExactCount", "count": count,
            }  # fmt: skip
            yield {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaim",
                "metadata": {
                    "name": name,
                    "namespace": request.namespace,
                    "labels": request_labels(request),
                },
                "spec": {"devices": {"requests": [{"name": "gpus", "exactly": exactly}]}},
            }


def request_manifest(request: NodeRequest, token: str) -> dict[str, Any]:
    names = [_template_name(request, token, number) for number in range(len(request.nodes))]
    return {
        "apiVersion": "autoscaling.x-k8s.io/v1",
        "kind": "ProvisioningRequest",
        "metadata": {
            "name": request.name,
            "namespace": request.namespace,
            "labels": request_labels(request),
            "annotations": {f"{PREFIX}session": request.session},
        },
        "spec": {
            "provisioningClassName": CLASS,
            "podSets": [{"podTemplateRef": {"name": name}, "count": 1} for name in names],
        },
    }


def owned_by(anchor: Mapping[str, str], manifest: Mapping[str, Any]) -> dict[str, Any]:
    """`anchor`: name and uid of the first PodTemplate."""
    owner = {"apiVersion": "v1", "kind": "PodTemplate", **anchor}
    return {**manifest, "metadata": {**manifest["metadata"], "ownerReferences": [owner]}}


def claim_names(
    request: NodeRequest, token: str, node: int, counted: frozenset[str] = frozenset()
) -> list[str]:
    count = sum(1 for _ in _shares(request.nodes[node], counted))
    return [f"{request.name}-{token}-{node}-{part}" for part in range(count)]


def _template_name(request: NodeRequest, token: str, node: int) -> str:
    """Of the first one, which has to be there once, the request's own."""
    return f"{request.name}-{token}-{node}" if node else request.name


def _shares(need: NodeNeed, counted: frozenset[str]) -> Iterator[tuple[str, int]]:
    """Slot and count of each claim, none larger than one may be."""
    for slot, count in need.devices:
        for begin in range(0, 0 if slot in counted else count, MOST_DEVICES):
            yield slot, min(MOST_DEVICES, count - begin)


def _pod_spec(
    request: NodeRequest, need: NodeNeed, claims: list[str], counted: frozenset[str]
) -> dict[str, Any]:
    named = [{"name": f"devices-{number}", "resourceClaimName": name} for number, name in enumerate(claims)]
    amounts = {
        "cpu": f"{need.cpu_milli}m",
        "memory": str(need.memory),
        **{slot: str(amount) for slot, amount in need.pages if slot in PAGES},
        **{WHOLE_DEVICES[slot]: str(count) for slot, count in need.devices if slot in counted},
    }
    resources: dict[str, Any] = {"requests": amounts, "limits": amounts}
    if named:
        resources["claims"] = [{"name": each["name"]} for each in named]
    security = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "runAsUser": 65534,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    return {
        "automountServiceAccountToken": False,
        "restartPolicy": "Never",
        "nodeSelector": dict(request.selector),
        "tolerations": [{"key": key, "operator": "Exists"} for key in (TAINT, *request.taints)],
        **({"affinity": _apart(request)} if len(request.nodes) > 1 else {}),
        **({"resourceClaims": named} if named else {}),
        "containers": [
            {"name": CONTAINER, "image": _IMAGE, "resources": resources, "securityContext": security}
        ],
    }


def _apart(request: NodeRequest) -> dict[str, Any]:
    """Members of a session are on nodes of their own."""
    term = {
        "labelSelector": {"matchLabels": {REQUEST: request.name}},
        "topologyKey": "kubernetes.io/hostname",
    }
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def is_of_request(found: Mapping[str, Any], options: Kubernetes) -> bool:
    """Whether bai has made it, for a request."""
    metadata = found["metadata"]
    labels = metadata.get("labels") or {}
    ours = all(labels.get(key) == value for key, value in MANAGED.items())
    return bool(ours and labels.get(REQUEST)) and options.may_be_ours(str(metadata.get("namespace")))


def parse_request(found: Mapping[str, Any], options: Kubernetes) -> AskedNodes | None:
    """A ProvisioningRequest; None for others'."""
    metadata = found["metadata"]
    if not is_of_request(found, options) or metadata["labels"][REQUEST] != metadata["name"]:
        return None
    state, why = _state((found.get("status") or {}).get("conditions") or ())
    return AskedNodes(
        str(metadata["namespace"]), str(metadata["name"]), str(metadata["labels"].get(OWNER) or ""),
        state, why, request_uid=str(metadata.get("uid") or ""),
    )  # fmt: skip


def parse_anchor(found: Mapping[str, Any], options: Kubernetes) -> AskedNodes | None:
    """The first PodTemplate of a request; None for others."""
    metadata = found["metadata"]
    if not is_of_request(found, options) or metadata["labels"][REQUEST] != metadata["name"]:
        return None
    return AskedNodes(
        str(metadata["namespace"]), str(metadata["name"]), str(metadata["labels"].get(OWNER) or ""),
        "incomplete", anchor_uid=str(metadata.get("uid") or ""),
        token=str((metadata.get("annotations") or {}).get(TOKEN) or ""),
    )  # fmt: skip


def _state(conditions: Any) -> tuple[RequestState, str]:
    """By the conditions, the last word first."""
    known = {str(each.get("type")): each for each in conditions}
    ends: tuple[tuple[str, RequestState], ...] = (
        ("Failed", "failed"), ("CapacityRevoked", "revoked"), ("BookingExpired", "expired"),
        ("Provisioned", "provisioned"),
    )  # fmt: skip
    for name, state in ends:
        if known.get(name, {}).get("status") == "True":
            # What they say where all went well is said by the state alone.
            return state, _words(known[name]) if state in ("failed", "revoked") else ""
    if known.get("Provisioned", {}).get("status") == "False":
        return "not-found", _words(known["Provisioned"])
    return ("accepted", "") if known.get("Accepted", {}).get("status") == "True" else ("new", "")


def _words(condition: Mapping[str, Any]) -> str:
    said = [str(condition.get(name) or "") for name in ("reason", "message")]
    return ": ".join(text for text in said if text)[:_LONGEST]
