"""Looking at nodes from inside: a pod on each, some at a time, and none of them left."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

from urllib3.exceptions import HTTPError

from providers.kubernetes.api.client import ApiClient, Object
from providers.kubernetes.api.credentials import NAME
from providers.kubernetes.api.errors import NOT_FOUND, ApiRefusal, api_errors
from providers.kubernetes.objects.names import PodRef, namespaced
from providers.kubernetes.objects.timestamp import parse_time
from providers.kubernetes.observe.nodes import ClusterNode
from providers.kubernetes.pods.end import MARGIN, delete_if_there, is_ended, wait_for_pod
from providers.kubernetes.pods.find import get_or_none
from providers.kubernetes.probe.answer import LARGEST, read_answer
from providers.kubernetes.probe.pod import PROBE, SECONDS, probe_manifest, probe_ref, selector
from schemas.hardware.model import Hardware
from schemas.kinds.parts.kubernetes import Kubernetes
from schemas.problems.errors.base import BaiError
from schemas.problems.errors.node import MachineRefused
from schemas.problems.errors.provider import ProviderError

AT_ONCE = 32
"""Pods at a time."""
_CHUNK = 2**16
_SILENCE = 30.0
_OLD = 600
"""Seconds after which nobody waits for a pod any more."""
_NEVER = frozenset({
    "CreateContainerConfigError", "CreateContainerError", "ErrImageNeverPull", "ImagePullBackOff",
    "InvalidImageName",
})  # fmt: skip
"""Why a container waits that will not start by waiting."""


def probe_nodes(
    client: ApiClient, options: Kubernetes, nodes: Iterable[ClusterNode], image: str = ""
) -> tuple[dict[str, Hardware], dict[str, str]]:
    """See `providers.abilities.ProbesOnRequest`. Raises ProviderError where nothing says how."""
    chosen, namespace = image or options.probe_image, options.namespace_of_probes
    if not chosen:
        hint = "name one with python3 (3.8 or newer): --image, or probeImage of the cluster's options"
        raise ProviderError(provider=NAME, why="no image is named by which nodes are looked at", hint=hint)
    if not namespace:
        hint = "name a namespace: probeNamespace of the cluster's options"
        why = "each project has a namespace of its own, and none is named for pods that look at nodes"
        raise ProviderError(provider=NAME, why=why, hint=hint)
    return NodeProbe(client, options, namespace, chosen).look_at(nodes)


class NodeProbe:
    """One round of looks. `namespace`: where their pods are made."""

    def __init__(self, client: ApiClient, options: Kubernetes, namespace: str, image: str) -> None:
        self._client = client
        self._options = options
        self._namespace = namespace
        self._image = image
        self._begun: dict[PodRef, str] = {}
        self._stopped = threading.Event()

    def look_at(self, nodes: Iterable[ClusterNode]) -> tuple[dict[str, Hardware], dict[str, str]]:
        """Node → what it says that it is, and node → why nobody could look. Raises nothing of the provider's;
        who interrupts it leaves no pod."""
        wanted = {node.name: node for node in nodes}
        if not wanted:
            return {}, {}
        with contextlib.suppress(ApiRefusal, OSError):
            self._sweep()
        with ThreadPoolExecutor(min(AT_ONCE, len(wanted)), "bai-probe") as pool:
            try:
                answers = dict(zip(wanted, pool.map(self._try, wanted.values()), strict=True))
            except BaseException:
                self._stopped.set()
                pool.shutdown(wait=False, cancel_futures=True)
                for ref, uid in tuple(self._begun.items()):
                    self._remove(ref, uid)
                raise
        found = {name: answer for name, answer in answers.items() if isinstance(answer, Hardware)}
        return found, {name: answer for name, answer in answers.items() if isinstance(answer, str)}

    def _sweep(self) -> None:
        """Pods whose makers are long gone. Raises ApiRefusal, OSError."""
        listed = self._client.list(namespaced("pods", self._namespace), {"labelSelector": selector()})
        now = datetime.now(UTC)
        for pod in listed.items:
            about = pod["metadata"]
            made = parse_time(about.get("creationTimestamp"))
            if made is not None and (now - made).total_seconds() > _OLD:
                self._remove(PodRef(self._namespace, str(about["name"])), str(about["uid"]))

    def _try(self, node: ClusterNode) -> Hardware | str:
        try:
            return self._look(node)
        except BaiError as error:
            return error.message + (f" ({error.hint})" if error.hint else "")

    def _look(self, node: ClusterNode) -> Hardware:
        """Raises MachineRefused, CannotRead, ProviderError."""
        if why := node.unreachable or (node.cordoned and f"it is cordoned: {node.cordoned}"):
            raise _refused(node, why)
        ref = probe_ref(self._namespace, node.name)
        with api_errors():
            pod = self._make(ref, node)
            uid = str(pod["metadata"]["uid"])
            self._begun[ref] = uid
            try:
                seen = wait_for_pod(self._client, ref, pod, self._is_decided, SECONDS + MARGIN)
                return self._read(ref, node, seen if seen and seen["metadata"]["uid"] == uid else None)
            finally:
                self._remove(ref, uid)

    def _make(self, ref: PodRef, node: ClusterNode) -> Object:
        body = probe_manifest(ref, node.name, self._image, self._options)
        try:
            return self._client.create(namespaced("pods", self._namespace), body)
        except ApiRefusal as refusal:
            if refusal.status == NOT_FOUND and "namespaces" in refusal.message:
                hint = f"kubectl create namespace {self._namespace}"
                why = f"the cluster has no namespace {self._namespace}"
                raise ProviderError(provider=NAME, why=why, hint=hint) from None
            if refusal.reason != "AlreadyExists":
                raise
        self._await_other(ref)
        return self._client.create(namespaced("pods", self._namespace), body)

    def _await_other(self, ref: PodRef) -> None:
        """Until a pod that somebody else has made, or left, has ended; then it is cleared away."""
        other = get_or_none(self._client, ref.path)
        if other is None:
            return
        if PROBE not in (other["metadata"].get("labels") or {}):
            why = f"pod {ref.namespace}/{ref.name} is not bai's"
            raise ProviderError(provider=NAME, why=why, hint="remove or rename it")
        uid = other["metadata"]["uid"]
        wait_for_pod(
            self._client, ref, other,
            lambda seen: self._is_decided(seen) or (seen is not None and seen["metadata"]["uid"] != uid),
            SECONDS + MARGIN,
        )  # fmt: skip
        self._remove(ref, uid)

    def _is_decided(self, pod: Object | None) -> bool:
        return self._stopped.is_set() or pod is None or is_ended(pod) or bool(_obstacle(pod))

    def _read(self, ref: PodRef, node: ClusterNode, pod: Object | None) -> Hardware:
        if pod is None:
            raise _refused(node, f"pod {ref.namespace}/{ref.name} was removed before it had said anything")
        if not is_ended(pod):
            why = _obstacle(pod) or f"pod {ref.namespace}/{ref.name} has not ended within {SECONDS} s"
            raise _refused(node, why)
        phase = pod["status"]["phase"]
        if phase != "Succeeded":
            raise _refused(node, _end_of(pod) or self._last_words(ref) or f"its pod has {phase.lower()}")
        return read_answer(self._log(ref, node), node)

    def _last_words(self, ref: PodRef) -> str:
        with contextlib.suppress(ApiRefusal, OSError):
            lines = self._answer(ref, 4096).decode(errors="replace").strip().splitlines()
            return lines[-1][:300] if lines else ""
        return ""

    def _log(self, ref: PodRef, node: ClusterNode) -> bytes:
        found = self._answer(ref, LARGEST + 1)
        if len(found) > LARGEST:
            raise _refused(node, f"its pod has said more than {LARGEST} bytes")
        return found

    def _answer(self, ref: PodRef, most: int) -> bytes:
        """Of the log, at most so much, whatever the node sends. Raises ApiRefusal, OSError."""
        found = b""
        deadline = time.monotonic() + 2 * _SILENCE
        query = {"container": ref.container, "limitBytes": most}
        response = self._client.stream(f"{ref.path}/log", query, silence=_SILENCE)
        try:
            for data in response.stream(_CHUNK, decode_content=False):
                found += data[: most - len(found)]
                if len(found) >= most:
                    break
                if time.monotonic() > deadline:
                    raise OSError("its kubelet sends its log too slowly")
        except HTTPError as error:
            raise OSError(str(error)) from error
        finally:
            response.close()
        return found

    def _remove(self, ref: PodRef, uid: str) -> None:
        """At once: it has nothing that another pod could be given too early."""
        with contextlib.suppress(ApiRefusal, OSError):
            delete_if_there(self._client, ref.path, {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}})


def _obstacle(pod: Object) -> str:
    """Why a pod that has not ended will not tell anything; empty while it may."""
    for each in (pod.get("status") or {}).get("containerStatuses") or ():
        state = each.get("state") or {}
        waiting = state.get("waiting") or {}
        if waiting.get("reason") in _NEVER:
            return f"{waiting['reason']}: {waiting.get('message') or 'it does not say why'}"[:300]
        if state.get("running") is not None and not each.get("containerID"):
            return "nothing runs on this node: it is simulated"
    return ""


def _end_of(pod: Object) -> str:
    """What its kubelet says of a pod that has failed; empty where the program itself has."""
    status = pod["status"]
    for each in status.get("containerStatuses") or ():
        ended = (each.get("state") or {}).get("terminated") or {}
        if ended.get("message"):
            return f"{ended.get('reason')}: {ended['message']}"[:300]
    why = ": ".join(str(status[name]) for name in ("reason", "message") if status.get(name))
    return why[:300]


def _refused(node: ClusterNode, why: str) -> MachineRefused:
    return MachineRefused(node=node.name, what="to be probed", why=why)
