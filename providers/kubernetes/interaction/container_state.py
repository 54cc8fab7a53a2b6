"""A kernel's container as its pod tells of it."""

from __future__ import annotations

from dataclasses import dataclass

from providers.kubernetes.api.client import ApiClient, Object
from providers.kubernetes.api.credentials import NAME
from providers.kubernetes.objects.names import PodRef, kernel_container
from schemas.problems.errors.kernel import NotRunning


@dataclass(frozen=True, slots=True)
class ContainerState:
    version: str
    """Of the pod; from which a watch goes on."""
    tty: bool
    running: bool
    began: bool
    """There is output to ask for, even if none was written."""
    run: str
    """The runtime's id of the present container, or of the last one; empty before the first."""
    restarts: int
    over: bool
    """It has ended and is not begun again."""
    exit_codes: dict[str, int]
    """Of the runs that are remembered, by the runtime's id."""


def read_state(client: ApiClient, pod: PodRef) -> ContainerState:
    """Raises ApiRefusal, OSError."""
    return container_state(client.get(pod.path))


def require_running(client: ApiClient, pod: PodRef) -> ContainerState:
    """Raises NotRunning, ApiRefusal, OSError."""
    state = read_state(client, pod)
    if not state.running:
        raise NotRunning(provider=NAME, kernel=pod.name)
    return state


def container_state(pod: Object) -> ContainerState:
    """Pure."""
    status = pod.get("status") or {}
    spec = kernel_container((pod.get("spec") or {}).get("containers"))
    found = kernel_container(status.get("containerStatuses"))
    state, last = found.get("state") or {}, found.get("lastState") or {}
    running, ended = state.get("running"), [each.get("terminated") or {} for each in (state, last)]
    return ContainerState(
        version=str((pod.get("metadata") or {}).get("resourceVersion") or ""),
        tty=bool(spec.get("tty")),
        running=running is not None,
        began=running is not None or any(ended),
        run=str(found.get("containerID") or ended[0].get("containerID") or ""),
        restarts=int(found.get("restartCount") or 0),
        over=running is None and status.get("phase") in ("Succeeded", "Failed"),
        exit_codes={str(each.get("containerID")): int(each.get("exitCode") or 0) for each in ended if each},
    )
