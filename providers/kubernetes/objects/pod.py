"""A kernel's spec as a pod, which is not bound to a node yet. Pure: the plan has decided everything."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from typing import Any

from providers import accounts
from providers.base import KernelSpec
from providers.kubernetes.objects import labels, volumes
from providers.kubernetes.objects.claim import claim_name
from providers.kubernetes.objects.counted import is_counted_device, limits_of
from providers.kubernetes.objects.names import CONTAINER, PREFIX, SCHEDULER, TOLERATED, PodRef
from schemas.kinds.parts.kubernetes import Kubernetes
from schemas.problems.errors.kernel import KernelRefused
from schemas.values.linux_users import is_root
from schemas.values.naturals import parse_natural

FILES = "/run/bai"
"""Where a kernel finds what it is given to read."""
_HUGE = "/dev/hugepages"
STOP = 'kill -s "$1" 1; while kill -0 1 2>/dev/null && sleep 1; do :; done'
"""What a kubelet has a container's own shell do before it sends TERM, as part of the grace: another signal,
and then TERM comes no sooner than the kill that ends the grace."""
_USER = re.compile(r"([0-9]+)(?::([0-9]+))?")
_VISIBLE = "NVIDIA_VISIBLE_DEVICES"
_EXPANDED = re.compile(r"\$(?=[$(])")


def pod_manifest(
    spec: KernelSpec, ref: PodRef, options: Kubernetes, given: str, *, claims: int, shared: Sequence[str] = ()
) -> dict[str, Any]:
    """The body of a POST. `given`: name of its secret, its config map and its first resource claim; `claims`:
    how many of these it has for itself; `shared`: those that others may use as well. Raises KernelRefused for
    what pods cannot have."""
    refuse_what_pods_lack(spec, options)
    network = spec.network.name
    annotations = {labels.LABELS: labels.to_annotation(spec.labels), **labels.STAYS}
    if spec.restart.max and spec.restart.policy != "never":
        annotations[labels.RESTARTS] = str(spec.restart.max)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": ref.name,
            "namespace": ref.namespace,
            "labels": labels.selectable(spec.labels, network),
            "annotations": annotations,
        },
        "spec": {
            "schedulerName": SCHEDULER,
            "hostname": spec.hostname,
            **_network(spec, network, ref, options),
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "restartPolicy": {"never": "Never", "on-failure": "OnFailure", "always": "Always"}[
                spec.restart.policy
            ],
            "terminationGracePeriodSeconds": 1 if _is_kill(spec) else max(1, round(spec.stop_grace)),
            **({"activeDeadlineSeconds": max(1, round(spec.timeout))} if spec.timeout else {}),
            "tolerations": [{"key": key, "operator": "Exists"} for key in TOLERATED],
            "securityContext": _pod_security(spec),
            "imagePullSecrets": [{"name": name} for name in options.image_pull_secrets],
            **({"runtimeClassName": options.runtime_class} if options.runtime_class else {}),
            **({"priorityClassName": options.priority_class} if options.priority_class else {}),
            **({"resourceClaims": _claims(given, claims, shared)} if claims or shared else {}),
            "containers": [_container(spec, given, claims=claims + len(shared))],
            "volumes": [*_own_volumes(spec, given), *volumes.pod_volumes(spec.mounts)],
        },
    }


def refuse_what_pods_lack(spec: KernelSpec, options: Kubernetes) -> None:
    """Raises KernelRefused."""
    why = ""
    if not spec.image:
        why = "it names no image"
    elif spec.ulimits:
        why = f"Kubernetes gives pods no ulimits, and it asks for {', '.join(sorted(spec.ulimits))}"
    elif (spec.parts or spec.share) and (problem := _part_problem(spec, options)):
        why = problem
    elif spec.user and not _USER.fullmatch(spec.user) and not is_root(spec.user):
        why = f"the user {spec.user} is a name of the image's, and pods are given users by number"
    elif spec.network.published:
        why = "restricted pods have no port at their node's address"
    else:
        why = volumes.mount_problem(spec.mounts, options)
    if why:
        raise KernelRefused(provider="kubernetes", kernel=spec.id, why=why)


def _part_problem(spec: KernelSpec, options: Kubernetes) -> str:
    """Why it cannot have parts of GPUs; empty when it can."""
    means = spec.share.means if spec.share is not None else "none"
    if any(is_counted_device(device, spec.labels.node) for device in spec.parts):
        return "parts of GPUs that a device plugin counts: it counts whole ones"
    if options.several_namespaces:
        return "parts of GPUs are shared within one namespace, and each project has its own here"
    if means == "mps" and not options.mps:
        return "parts of GPUs by mps: the cluster's options do not say that it has that"
    if means not in ("mps", "none"):
        return f"parts of GPUs by {means}: pods have only what their driver offers"
    if spec.share is not None and set(spec.share.milli) != set(spec.parts):
        return "parts of GPUs: which ones, and how large parts, does not fit together"
    return ""


def _claims(given: str, count: int, shared: Sequence[str]) -> list[dict[str, str]]:
    names = (*(claim_name(given, number) for number in range(count)), *shared)
    return [{"name": _name_in_pod(number), "resourceClaimName": name} for number, name in enumerate(names)]


def _name_in_pod(number: int) -> str:
    """What the pod calls a claim of its."""
    return f"devices-{number + 1}"


def _network(spec: KernelSpec, network: str, ref: PodRef, options: Kubernetes) -> dict[str, Any]:
    """Members of a session find each other by the plain names of their containers."""
    if not network:
        return {}
    zone = f"{network}.{ref.namespace}.svc.{options.cluster_domain}"
    return {"subdomain": network, "dnsConfig": {"searches": [zone]}}


def run_as(spec: KernelSpec) -> tuple[int, int]:
    """User and group: the session's own choice, else its project's Linux user."""
    found = _USER.fullmatch(spec.user)
    if found:
        uid = parse_natural(found[1], 2**31 - 1) or 0
        return uid, parse_natural(found[2] or found[1], 2**31 - 1) or 0
    if spec.user:
        return 0, 0
    return (spec.uid, spec.uid) if spec.uid else (65534, 65534)


def _pod_security(spec: KernelSpec) -> dict[str, Any]:
    uid, gid = run_as(spec)
    groups = sorted({*spec.groups} - {gid})
    return {
        "runAsUser": uid,
        "runAsGroup": gid,
        "runAsNonRoot": uid != 0,
        "fsGroup": gid,
        "fsGroupChangePolicy": "OnRootMismatch",
        **({"supplementalGroups": groups} if groups else {}),
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def _container(spec: KernelSpec, given: str, *, claims: int) -> dict[str, Any]:
    uid, _ = run_as(spec)
    added = sorted({name.removeprefix("CAP_") for name in spec.capabilities}) if uid == 0 else []
    base = {"HOME": accounts.HOME, "USER": accounts.USER, "LOGNAME": accounts.USER}
    files = {file.variable: f"{FILES}/{file.name}" for file in spec.files}
    # A runtime gives a container the GPUs that this variable names, whosever they are: it is the plan's, or,
    # where a device plugin gives them, that one's.
    own = {name: value for name, value in spec.env.items() if name != _VISIBLE or not _is_told(spec)}
    plain = {**base, **own, **files}
    secret = sorted(name for name in spec.secret_env if name != _VISIBLE)
    return {
        "name": CONTAINER,
        "image": spec.image,
        **({"args": [_literal(word) for word in spec.command]} if spec.command else {}),
        "workingDir": spec.workdir or accounts.HOME,
        "env": [
            *(
                {"name": name, "value": _literal(value)}
                for name, value in plain.items()
                if name not in secret
            ),
            *({"name": name, "valueFrom": {"secretKeyRef": {"name": given, "key": name}}} for name in secret),
        ],
        "resources": _resources(spec, claims=claims),
        "volumeMounts": [*_own_mounts(spec), *volumes.volume_mounts(spec.mounts)],
        "stdin": spec.tty,
        "tty": spec.tty,
        "terminationMessagePolicy": "File",
        **_stop_hook(spec),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": spec.read_only_root,
            "capabilities": {"drop": ["ALL"], **({"add": added} if added else {})},
        },
    }


def _is_told(spec: KernelSpec) -> bool:
    """Whether a device plugin says which GPUs it has."""
    return any(is_counted_device(device, spec.labels.node) for device in spec.devices)


def _stop_hook(spec: KernelSpec) -> dict[str, Any]:
    """Kubernetes' own field for a signal other than TERM, `lifecycle.stopSignal`, is an alpha one."""
    name = spec.stop_signal.removeprefix("SIG")
    if name == "TERM" or _is_kill(spec):
        return {}
    return {"lifecycle": {"preStop": {"exec": {"command": ["/bin/sh", "-c", STOP, "sh", name]}}}}


def _is_kill(spec: KernelSpec) -> bool:
    """Which nobody inside can send to the first process: it has the shortest grace in its place."""
    return spec.stop_signal == "SIGKILL"


def _literal(text: str) -> str:
    """The kubelet replaces `$(NAME)` in commands and variables, and `$$` by `$`, which is how both are
    written as they are."""
    return _EXPANDED.sub("$$", text)


def _resources(spec: KernelSpec, *, claims: int) -> dict[str, Any]:
    """Requests are limits, so that the pod is of the guaranteed class, whose exclusive cores the kubelet
    gives to nobody else."""
    cpu = f"{len(spec.cpus)}" if spec.cpus else f"{spec.cpu_milli}m"
    amounts = {
        **({"cpu": cpu} if spec.cpus or spec.cpu_milli else {}),
        **({"memory": str(spec.memory)} if spec.memory else {}),
        **{slot: str(amount) for slot, amount in sorted(spec.hugepages.items())},
        **({"ephemeral-storage": str(spec.scratch)} if spec.scratch else {}),
        **limits_of(spec.devices, spec.labels.node),
    }
    return {
        "requests": amounts,
        "limits": amounts,
        **({"claims": [{"name": _name_in_pod(number)} for number in range(claims)]} if claims else {}),
    }


def _own_mounts(spec: KernelSpec) -> list[dict[str, Any]]:
    """Where a volume of the session's is mounted there, that takes its place."""
    own: list[dict[str, Any]] = [
        {"name": "home", "mountPath": accounts.HOME},
        *([{"name": "tmp", "mountPath": "/tmp"}] if spec.read_only_root else []),
        *([{"name": "shm", "mountPath": "/dev/shm"}] if spec.shm else []),
        *({"name": slot.lower(), "mountPath": path} for slot, path in _page_folders(spec).items()),
        *([{"name": "files", "mountPath": FILES, "readOnly": True}] if spec.files else []),
    ]
    taken = {posixpath.normpath(mount.target) for mount in spec.mounts}
    return [each for each in own if each["mountPath"] not in taken]


def _page_folders(spec: KernelSpec) -> dict[str, str]:
    """By the slot of huge pages, where their file system is: of the smaller ones where Linux has it."""
    slots = sorted((slot for slot, amount in spec.hugepages.items() if amount), reverse=True)
    return {slot: _HUGE if at == 0 else f"/dev/{slot}" for at, slot in enumerate(slots)}


def _medium(slot: str) -> str:
    return f"HugePages-{slot.removeprefix('hugepages-')}"


def _own_volumes(spec: KernelSpec, given: str) -> list[dict[str, Any]]:
    scratch = {"sizeLimit": str(spec.scratch)} if spec.scratch else {}
    shm = {"medium": "Memory", "sizeLimit": str(spec.shm)}
    return [
        {"name": "home", "emptyDir": scratch},
        *([{"name": "tmp", "emptyDir": {}}] if spec.read_only_root else []),
        *([{"name": "shm", "emptyDir": shm}] if spec.shm else []),
        *({"name": slot.lower(), "emptyDir": {"medium": _medium(slot)}} for slot in _page_folders(spec)),
        *([{"name": "files", "configMap": {"name": given}}] if spec.files else []),
    ]


def given_name(pod: Mapping[str, Any]) -> str:
    """What a pod calls its secret and its config map; empty: it has neither."""
    (container,) = pod["spec"]["containers"]
    sources = [(each.get("valueFrom") or {}).get("secretKeyRef") for each in container.get("env") or ()]
    sources += [each.get("configMap") for each in pod["spec"].get("volumes") or ()]
    return next((str(each["name"]) for each in sources if each), "")


def beside(spec: KernelSpec, pod: Mapping[str, Any]) -> Sequence[tuple[str, dict[str, Any]]]:
    """The pod's secret and config map, each with the resource that it is of; they go with the pod."""
    about = {
        "name": given_name(pod),
        "namespace": pod["metadata"]["namespace"],
        "labels": labels.MANAGED,
        "ownerReferences": [owner_reference(pod)],
    }
    found: list[tuple[str, dict[str, Any]]] = []
    if spec.secret_env:
        body = {"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": about, "immutable": True}
        found.append(("secrets", {**body, "stringData": dict(spec.secret_env)}))
    if spec.files:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": about, "immutable": True}
        found.append(("configmaps", {**body, "data": {file.name: file.content for file in spec.files}}))
    return found


def service_manifest(name: str, namespace: str, owner: Mapping[str, Any]) -> dict[str, Any]:
    """The names of a session's members: a service without an address, which knows them before they are ready,
    since they wait for each other."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": labels.MANAGED,
            "ownerReferences": [dict(owner)],
        },
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {f"{PREFIX}network": name},
        },
    }


def owner_reference(pod: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": pod["metadata"]["name"],
        "uid": pod["metadata"]["uid"],
    }


def is_owned(found: Mapping[str, Any], pod: Mapping[str, Any]) -> bool:
    """Whether an object goes with this very pod, not with an earlier one of its name."""
    owners = (found.get("metadata") or {}).get("ownerReferences") or ()
    return pod["metadata"]["uid"] in {each.get("uid") for each in owners}
