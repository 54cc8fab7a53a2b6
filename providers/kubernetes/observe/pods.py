"""What a pod says of its kernel. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from providers.base import KernelState, Labels, Observed
from providers.kubernetes.objects import labels, volumes
from providers.kubernetes.objects.amounts import parse_amounts
from providers.kubernetes.objects.claim import claim_names
from providers.kubernetes.objects.counted import counted_amounts, held_by_count
from providers.kubernetes.objects.names import kernel_container
from providers.kubernetes.objects.quantity import parse_quantity
from providers.kubernetes.objects.sharing import is_shared_name
from providers.kubernetes.objects.timestamp import parse_time
from schemas.hardware.anonymous import AnonymousDevice
from schemas.kinds.parts.kubernetes import Kubernetes
from schemas.values.naturals import parse_natural
from schemas.values.resource_ref import ref_of

_SIGNALLED, _SIGNALS = 128, 64
_TOLD_WITHIN = 60.0
"""Seconds in which a kubelet has told of an end, and deleted what had to end."""
_NEVER_STARTED = frozenset({
    "Evicted", "NodeAffinity", "NodeLost", "NodeShutdown", "OutOfcpu", "OutOfmemory", "OutOfpods",
    "Preempting", "Shutdown", "Terminated", "TopologyAffinityError", "UnexpectedAdmissionError",
})  # fmt: skip
"""Reasons of a failed pod that no program of its own brought about: its node turned it away, or ended it."""


@dataclass(frozen=True, slots=True)
class OwnPod:
    """A pod that is a kernel. `spent`: it was restarted as often as its session allows, and failed again;
    `given_up`: the kubelet was told to leave it at that."""

    kernel: Observed
    namespace: str
    uid: str
    node: str
    """That it is bound to; empty: to none yet."""
    spent: bool = False
    given_up: bool = False
    claims: tuple[str, ...] = ()
    """That it mounts, by name."""
    shared: tuple[str, ...] = ()
    """Claims of devices that others may use as well, by name."""
    charged: Mapping[str, int] | None = None
    """Slot → what quotas count of it; None: it has ended, and counts no more."""
    counted: Mapping[str, int] = field(default_factory=dict)
    """Devices that its node counts, by resource; none of one that has ended."""
    held: tuple[AnonymousDevice, ...] = ()
    """Which of them it has, to plans."""


def is_ours(pod: Mapping[str, Any], options: Kubernetes) -> bool:
    """Whether a pod claims to be a kernel, and is where only bai makes pods."""
    metadata = pod.get("metadata") or {}
    if (metadata.get("labels") or {}).get("app.kubernetes.io/managed-by") != "bai":
        return False
    found = labels.from_annotation(metadata)
    if found is None or not labels.is_consistent(metadata, found):
        return False
    return bool(metadata.get("namespace") == options.namespace_of(_project(found)))


def _project(found: Labels) -> str:
    return ref_of(found.resource).project


def parse_pod(pod: Mapping[str, Any]) -> OwnPod | None:
    """None for a pod without readable labels."""
    metadata, spec, status = pod.get("metadata") or {}, pod.get("spec") or {}, pod.get("status") or {}
    found = labels.from_annotation(metadata)
    if found is None:
        return None
    container = kernel_container(status.get("containerStatuses"))
    most = parse_natural(str((metadata.get("annotations") or {}).get(labels.RESTARTS) or ""))
    restarts = int(container.get("restartCount") or 0)
    told = (metadata.get("annotations") or {}).get(labels.SPENT)
    spent = told is not None or (most is not None and _is_spent(status, container, most))
    node = str(spec.get("nodeName") or "")
    state = "exited" if spent else _state(pod)
    ended = _terminated(container)
    over = status.get("phase") in ("Succeeded", "Failed")
    counted = {} if over else counted_amounts(_resources(spec).get("requests"))
    held = held_by_count(found.placement, found.node) if counted else ()
    return OwnPod(
        Observed(
            id=labels.adopted_id(metadata) or str(metadata.get("name")),
            labels=found,
            state=state,
            exit_code=_exit_code(ended, told) if state == "exited" else None,
            reason=_reason(pod, container, state),
            created=parse_time(metadata.get("creationTimestamp")),
            started=_started(container),
            finished=parse_time(ended.get("finishedAt")) if state in ("exited", "lost") else None,
            restarts=min(restarts, most) if spent and most is not None else restarts,
            memory=_memory(spec),
            image=_image(spec),
        ),
        namespace=str(metadata.get("namespace")),
        uid=str(metadata.get("uid")),
        node=node,
        shared=tuple(filter(is_shared_name, claim_names(pod))),
        given_up=told is not None,
        spent=spent,
        claims=volumes.claims_of(pod),
        charged=None if over else _charged(spec, held),
        counted=counted,
        held=tuple(device for device, _ in held),
    )


def _is_spent(status: Mapping[str, Any], container: Mapping[str, Any], most: int) -> bool:
    """Whether it has failed once more than it may be restarted."""
    now, restarts = container.get("state") or {}, int(container.get("restartCount") or 0)
    failed = now.get("terminated") or (now.get("waiting") or {}).get("reason") == "CrashLoopBackOff"
    going_on = status.get("phase") not in ("Succeeded", "Failed")
    return going_on and (restarts > most or (restarts == most and bool(failed)))


def _terminated(container: Mapping[str, Any]) -> Mapping[str, Any]:
    """How it ended, now or the last time."""
    now, before = container.get("state") or {}, container.get("lastState") or {}
    return now.get("terminated") or before.get("terminated") or {}


def _state(pod: Mapping[str, Any]) -> KernelState:
    metadata, status = pod.get("metadata") or {}, pod.get("status") or {}
    phase = status.get("phase")
    if phase in ("Succeeded", "Failed"):
        return "lost" if _was_turned_away(status) or _was_taken_away(pod) else "exited"
    if metadata.get("deletionTimestamp") or labels.STOPPED in (metadata.get("annotations") or {}):
        return "stopping"
    container = kernel_container(status.get("containerStatuses"))
    if (container.get("state") or {}).get("running") or container.get("restartCount"):
        return "running"
    if phase == "Running" and _terminated(container):
        return "running"  # It is about to be restarted, or its end to be told.
    return "starting" if (pod.get("spec") or {}).get("nodeName") else "creating"


def _was_turned_away(status: Mapping[str, Any]) -> bool:
    reason = str(status.get("reason") or "")
    return (
        reason in _NEVER_STARTED
        or reason.startswith("OutOf")
        or (
            status.get("phase") == "Failed"
            and not _terminated(kernel_container(status.get("containerStatuses")))
            and reason != "DeadlineExceeded"
        )
    )


def _was_taken_away(pod: Mapping[str, Any]) -> bool:
    """Whether somebody else deleted it while it ran, as drains and evictions do: a program that ends well
    because it is told to has not ended by itself. The API shows such a pod for a moment, or until its
    finalizers go."""
    metadata = pod.get("metadata") or {}
    until = parse_time(metadata.get("deletionTimestamp"))
    if until is None or labels.STOPPED in (metadata.get("annotations") or {}):
        return False
    if not metadata.get("finalizers"):
        return True  # One that has ended already is gone with its deletion.
    ended = _terminated(kernel_container((pod.get("status") or {}).get("containerStatuses")))
    finished = parse_time(ended.get("finishedAt"))
    # The time is that of the last deletion: its kubelet's own, which comes once all has ended.
    return finished is None or finished.timestamp() >= until.timestamp() - _TOLD_WITHIN


def _exit_code(ended: Mapping[str, Any], told: Any = None) -> int | None:
    """`told`: noted when the last restart that is allowed had failed; what the kubelet began afterwards does
    not count."""
    if told is not None:
        return parse_natural(str(told))
    code = ended.get("exitCode")
    return code if isinstance(code, int) else None


def _reason(pod: Mapping[str, Any], container: Mapping[str, Any], state: KernelState) -> str:
    """In the words that all providers share; for a kernel that does not start, why."""
    status = pod.get("status") or {}
    said = str(status.get("reason") or "")
    if state == "lost":
        what = f"{said}: {status.get('message') or ''}".strip(": ")[:500]
        return what or ("deleted" if _was_taken_away(pod) else "it was never started")
    if state == "exited":
        noted = (pod.get("metadata") or {}).get("annotations") or {}
        if labels.STOPPED in noted:
            return "stopped"
        if labels.SPENT in noted:
            return "exit"
        if said == "DeadlineExceeded":
            return "timeout"
        ended = _terminated(container)
        if ended.get("reason") == "OOMKilled":
            return "out-of-memory"
        code = _exit_code(ended)
        if code is not None and _SIGNALLED < code <= _SIGNALLED + _SIGNALS:
            return f"signal {code - _SIGNALLED}"
        return "exit"
    waiting = (container.get("state") or {}).get("waiting") or {}
    if waiting.get("reason") in (None, "ContainerCreating", "PodInitializing"):
        return ""
    return f"{waiting['reason']}: {waiting.get('message') or ''}".strip(": ")[:500]


def _started(container: Mapping[str, Any]) -> datetime | None:
    running = (container.get("state") or {}).get("running") or {}
    return parse_time(running.get("startedAt") or _terminated(container).get("startedAt"))


def _memory(spec: Mapping[str, Any]) -> int:
    text = (_resources(spec).get("limits") or {}).get("memory")
    return parse_quantity(str(text)) if text else 0


def _charged(spec: Mapping[str, Any], held: Iterable[tuple[AnonymousDevice, str]]) -> Mapping[str, int]:
    found = parse_amounts(_resources(spec).get("requests"))
    found.update(slot for _, slot in held)
    return found


def _resources(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    return kernel_container(spec.get("containers")).get("resources") or {}


def _image(spec: Mapping[str, Any]) -> str:
    return str(kernel_container(spec.get("containers")).get("image") or "")
