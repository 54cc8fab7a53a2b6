"""What pods that do not start yet wait for: volumes, devices or their image. That is in no pod's status, but
in events, and in claims of volumes, which are watched from the moment that such a pod waits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from providers.kubernetes.api.client import ApiClient
from providers.kubernetes.api.errors import api_errors
from providers.kubernetes.api.reflector import Key, Reflector, View
from providers.kubernetes.objects.names import namespaced
from providers.kubernetes.objects.volume_claim import RESOURCE
from providers.kubernetes.observe.pods import OwnPod
from schemas.problems.errors.provider import ProviderError

T = TypeVar("T")
PULLING, PULLED = "Pulling", "Pulled"
POD_EVENTS = frozenset({
    "FailedMount", "FailedAttachVolume", "FailedMapVolume", "FailedPrepareDynamicResources", PULLING, PULLED,
})  # fmt: skip
CLAIM_EVENTS = frozenset({"FailedBinding", "ProvisioningFailed", "ExternalProvisioning"})
_REMEDIES = (
    ("hostpath type check failed", "make the folder on that node, for the project's user"),
    ("multi-attach", "another node has it: end the session there, or give its storage host ReadWriteMany"),
    ("node affinity", "its data is on other nodes: name one of them in placement.nodes"),
    ("nodeaffinity", "its data is on other nodes: name one of them in placement.nodes"),
    ("storageclass", "`kubectl get storageclasses` has those that pvc.storageClass can name"),
    ("no persistent volumes available", "make a PersistentVolume, or name a storageClass in pvc"),
    ("waiting for a volume to be created", "see the provisioner's log, or make a PersistentVolume"),
    ("first consumer", "a class without a provisioner has to be of volumeBindingMode Immediate"),
    ("no such file or directory", "make the folder there, for the project's user"),
    ("access denied by server", "let the server export it to the nodes"),
    ("bad option", "install the NFS client (nfs-common, nfs-utils) on the node"),
    ("mpssupport", "switch this feature gate of the NVIDIA DRA driver on, or take `mps` out of the options"),
    ('unknown field "multiuser"', "MPS for several users needs NVIDIA's DRA driver 0.5 or later"),
    ("unknown filesystem type", "install the file system's client on the node"),
)
"""What is in a message, in lower case → what to do."""
_LONGEST = 300
_TIME_IS_UP = "Unable to attach or mount volumes"
_QUOTED = re.compile(r'"([^"]{1,300})"')
_PULLED = re.compile(r"pulled image .* in (\S{1,30}) \(.* Image size: ([0-9]{1,18}) bytes")
"""As kubelets word it (pkg/kubelet/images/image_manager.go): the size is told with the end alone."""


@dataclass(frozen=True, slots=True)
class StartEvent:
    """What happened to a pod's volumes, devices or image, or to a claim; `at` sorts by time."""

    subject: tuple[str, str]
    """Kind, and the UID of a pod or the name of a claim."""
    reason: str
    message: str
    at: str


class StartWaits:
    """Whoever may not see events or claims gets no reasons, and everything else."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self._events: dict[str, Reflector[StartEvent]] = {}
        self._claims: dict[str, Reflector[str]] = {}
        self._views: dict[str, tuple[View[StartEvent], View[str]]] = {}
        """Namespace with pods that wait → what was last seen there."""

    @property
    def revisions(self) -> tuple[tuple[str, int, int], ...]:
        """What differs when anything has changed there."""
        return tuple((name, one.revision, two.revision) for name, (one, two) in sorted(self._views.items()))

    def look(self) -> None:
        """Again where pods waited the last time; where none do, nothing is asked."""
        for namespace in self._views:
            self._views[namespace] = self._look_at(namespace)

    def reasons(self, pods: Mapping[Key, OwnPod]) -> dict[Key, str]:
        """Pod → what it waits for before it starts, of those that have not."""
        waiting: dict[str, dict[Key, OwnPod]] = {}
        for key, pod in pods.items():
            if _may_wait(pod):
                waiting.setdefault(key[0], {})[key] = pod
        mounting = {name for name, its in waiting.items() if any(pod.claims for pod in its.values())}
        self._views = {
            name: self._view_for(name, claims=name in mounting or name in self._claims) for name in waiting
        }
        found = {}
        for namespace, its in waiting.items():
            events, claims = self._views[namespace]
            latest = _latest(events.objects.values())
            phases = {name: phase for (_, name), phase in claims.objects.items()}
            for key, pod in its.items():
                if why := wait_reason(pod, latest, phases):
                    found[key] = why
        return found

    def _view_for(self, namespace: str, *, claims: bool) -> tuple[View[StartEvent], View[str]]:
        """As looked at just now, or for the first time."""
        if namespace not in self._events:
            path = namespaced("events", namespace)
            self._events[namespace] = Reflector(self._client, path, parse_event)
        new = claims and namespace not in self._claims
        if new:
            path = namespaced(RESOURCE, namespace)
            self._claims[namespace] = Reflector(self._client, path, _claim_phase)
        known = None if new else self._views.get(namespace)
        return known or self._look_at(namespace)

    def _look_at(self, namespace: str) -> tuple[View[StartEvent], View[str]]:
        claims = self._claims.get(namespace)
        return _seen(self._events[namespace]), View({}, -1) if claims is None else _seen(claims)

    def close(self) -> None:
        watched: tuple[Reflector[Any], ...] = (*self._events.values(), *self._claims.values())
        for each in watched:
            each.close()


def _seen(view: Reflector[T]) -> View[T]:
    """Nothing where it may not be seen."""
    try:
        with api_errors():
            return view.look()
    except ProviderError:
        return View({}, -1)


def _may_wait(pod: OwnPod) -> bool:
    return pod.kernel.state == "starting" and not pod.kernel.reason


def parse_event(found: Mapping[str, Any]) -> StartEvent | None:
    """None for what is about neither a volume, nor a device, nor an image."""
    about, reason = found.get("involvedObject") or {}, str(found.get("reason"))
    if about.get("kind") == "Pod" and reason in POD_EVENTS:
        subject = ("Pod", str(about.get("uid")))
    elif about.get("kind") == "PersistentVolumeClaim" and reason in CLAIM_EVENTS:
        subject = ("PersistentVolumeClaim", str(about.get("name")))
    else:
        return None
    series, metadata = found.get("series") or {}, found.get("metadata") or {}
    times = (series.get("lastObservedTime"), found.get("lastTimestamp"), found.get("eventTime"))
    at = next((str(time) for time in times if time), str(metadata.get("creationTimestamp")))
    return StartEvent(subject, reason, str(found.get("message") or ""), at)


def _claim_phase(found: Mapping[str, Any]) -> str:
    return str((found.get("status") or {}).get("phase") or "Pending")


def _latest(events: Iterable[StartEvent]) -> dict[tuple[str, str], StartEvent]:
    """What was said last of each; that time is up says less than what took it."""
    found: dict[tuple[str, str], StartEvent] = {}
    for event in sorted(events, key=lambda each: (not each.message.startswith(_TIME_IS_UP), each.at)):
        found[event.subject] = event
    return found


def wait_reason(pod: OwnPod, events: Mapping[tuple[str, str], StartEvent], phases: Mapping[str, str]) -> str:
    """In words, with what to do; empty where nothing is known. Pure."""
    for name in pod.claims if phases else ():
        phase = phases.get(name)
        if phase is None:
            return f"there is no claim {name}: `bai apply` makes it"
        if phase != "Bound":
            event = events.get(("PersistentVolumeClaim", name))
            return f"claim {name} is {phase}" + (f": {_words(event)}" if event is not None else "")
    event = events.get(("Pod", pod.uid))
    return _words(event) if event is not None else ""


def _words(event: StartEvent) -> str:
    said = " ".join(event.message.split())
    if event.reason in (PULLING, PULLED):
        return _image_words(event, said)
    remedy = next((remedy for part, remedy in _REMEDIES if part in said.lower()), "")
    return f"{event.reason}: {said[:_LONGEST]}" + (f"; {remedy}" if remedy else "")


def _image_words(event: StartEvent, said: str) -> str:
    """How far a pull is, as far as kubelets tell: when it began, and in the end how long it took and how
    large the image is. One that was there already is no wait."""
    name = _QUOTED.search(said)
    image = name[1] if name else "its image"
    if event.reason == PULLING:
        return f"pulling {image} since {event.at[:19].replace('T', ' ')} UTC"
    pulled = _PULLED.search(said)
    return f"pulled {image} in {pulled[1]}, {-(-int(pulled[2]) // 10**6)} MB" if pulled else ""
