"""Ending a kernel: stopped, its pod stays with exit code and log; removed, nothing of it is left."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable

from urllib3.exceptions import HTTPError

from providers.kubernetes.api.client import ApiClient, Object
from providers.kubernetes.api.credentials import NAME
from providers.kubernetes.api.errors import CONFLICT, GONE, NOT_FOUND, ApiRefusal, api_errors
from providers.kubernetes.objects import labels
from providers.kubernetes.objects.claim import claim_names, claim_path, is_held
from providers.kubernetes.objects.names import RESOURCE_API, PodRef, namespaced
from providers.kubernetes.objects.pod import given_name, is_owned
from providers.kubernetes.objects.sharing import is_shared_name
from providers.kubernetes.pods.find import get_or_none
from schemas.problems.errors.kernel import KernelNotFound
from schemas.problems.errors.provider import ProviderUnavailable

MARGIN = 30.0
"""Seconds beyond its grace for a kubelet to end a pod and to say so."""
_ENDED = ("Succeeded", "Failed")
_SLICE = 10
"""Seconds for which one watch goes on."""
_PAUSE = 0.1
"""Seconds between two looks where there is nothing to watch."""

GoneClaim = tuple[tuple[str, str], str]
"""Namespace and name, and the UID, of a claim that is no more."""


def stop_pod(client: ApiClient, ref: PodRef, pod: Object) -> Object:
    """The pod once it has ended: its time is up from now on, which the kubelet sees to, with its own signal
    and grace. One that has ended stays as it is. Raises ProviderUnavailable, ProviderError."""
    if is_ended(pod):
        return pod
    with api_errors(ref.name):
        patched = client.patch(
            ref.path,
            {"metadata": {"annotations": {labels.STOPPED: "true"}}, "spec": {"activeDeadlineSeconds": 1}},
        )
        grace = float(pod["spec"].get("terminationGracePeriodSeconds") or 0)
        found = wait_for_pod(
            client, ref, patched, lambda seen: seen is None or is_ended(seen), grace + MARGIN
        )
        return patched if found is None else found


def wait_for_end(client: ApiClient, ref: PodRef, pod: Object, seconds: float) -> Object:
    """The pod once it has ended by itself, or as it is after so many seconds. Raises KernelNotFound,
    ProviderUnavailable."""
    with api_errors(ref.name):
        found = wait_for_pod(client, ref, pod, lambda seen: seen is None or is_ended(seen), seconds)
    if found is None:
        raise KernelNotFound(provider=NAME, kernel=ref.name)
    return found


def note_stopped(client: ApiClient, ref: PodRef) -> Object:
    """The pod that has ended after a notice: not by itself. Raises ProviderUnavailable, ProviderError."""
    with api_errors(ref.name):
        return client.patch(ref.path, {"metadata": {"annotations": {labels.STOPPED: "true"}}})


def give_up(client: ApiClient, ref: PodRef, exit_code: int | None) -> Object:
    """Kubelets restart without a limit: one that has restarted a pod often enough is told that its time is
    up. Raises ApiRefusal, OSError."""
    noted = {labels.SPENT: str(exit_code if exit_code is not None else 1)}
    return client.patch(ref.path, {"metadata": {"annotations": noted}, "spec": {"activeDeadlineSeconds": 1}})


def is_ended(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in _ENDED


def remove_pod(client: ApiClient, ref: PodRef, pod: Object | None) -> list[GoneClaim]:
    """The pod at once, then its claims, so that its devices are free when this returns: which these were.
    Without a pod, the claims that one has left behind. Raises ProviderUnavailable where its node does not say
    that it has ended."""
    with api_errors(ref.name):
        if pod is None:
            return _delete_claims_left(client, ref)
        _delete_pod(client, ref, pod)
        if labels.adopted_id(pod["metadata"]):
            return _give_back_claims(client, ref, pod)
        given = given_name(pod)
        for resource in ("secrets", "configmaps") if given else ():
            # The cluster would clear them away, too, but later.
            delete_if_there(client, f"{namespaced(resource, ref.namespace)}/{given}")
        return _gone(
            _leave_claim(client, own, pod["metadata"]["uid"])
            if is_shared_name(own.name)
            else _delete_claim(client, own)
            for own in (PodRef(ref.namespace, name) for name in claim_names(pod))
        )


def _delete_pod(client: ApiClient, ref: PodRef, pod: Object) -> None:
    # With no grace at all, the API forgets a pod whose container still runs and has the devices.
    unbound = not pod["spec"].get("nodeName")
    metadata = pod["metadata"]
    # One that was bound meanwhile is looked at again, and then it has to end.
    same = {"uid": metadata["uid"], **({"resourceVersion": metadata["resourceVersion"]} if unbound else {})}
    body = {"gracePeriodSeconds": 0 if unbound else 1, "preconditions": same}
    if delete_if_there(client, ref.path, body) is None:
        return
    uid = metadata["uid"]
    left = wait_for_pod(client, ref, pod, lambda seen: seen is None or seen["metadata"]["uid"] != uid, MARGIN)
    if left is not None and left["metadata"]["uid"] == uid:
        why = f"node {pod['spec'].get('nodeName')} has not said that pod {ref.name} has ended"
        raise ProviderUnavailable(provider=NAME, why=why)


def _gone(deleted: Iterable[GoneClaim | None]) -> list[GoneClaim]:
    return [each for each in deleted if each is not None]


def _give_back_claims(client: ApiClient, ref: PodRef, pod: Object) -> list[GoneClaim]:
    """Those that were made for an adopted pod go with it; one that somebody else has made stays, and what
    belongs to others beside the pod is not touched at all."""
    uid, gone = pod["metadata"]["uid"], []
    for name in claim_names(pod):
        own = PodRef(ref.namespace, name)
        claim = get_or_none(client, claim_path(own))
        if claim is not None and is_owned(claim, pod):
            gone.append(_delete_claim(client, own))
        elif claim is not None:
            wait_for_claim(client, own, lambda found: found is None or not is_held(found, uid))
    return _gone(gone)


def _delete_claims_left(client: ApiClient, ref: PodRef) -> list[GoneClaim]:
    """Of a pod that is gone: the cluster would clear them away, too, but later."""
    selected = {**labels.MANAGED, labels.KERNEL: ref.name}
    query = {"labelSelector": ",".join(f"{name}={value}" for name, value in selected.items())}
    left = client.list(namespaced("resourceclaims", ref.namespace), query).items
    return _gone(_delete_claim(client, PodRef(ref.namespace, claim["metadata"]["name"])) for claim in left)


def _leave_claim(client: ApiClient, ref: PodRef, uid: str) -> GoneClaim | None:
    """A claim that others may share goes with the last of them; None where somebody is left, or it was gone
    before."""
    while (claim := get_or_none(client, claim_path(ref))) is not None and _is_left_by_all(client, claim, uid):
        about = claim["metadata"]
        same = {"uid": about["uid"], "resourceVersion": about["resourceVersion"]}
        try:
            return _delete_claim(client, ref, {"preconditions": same})
        except ApiRefusal as refusal:
            if refusal.status != CONFLICT:
                raise  # Else somebody has come, or the cluster has taken note of who left.
    return None


def _is_left_by_all(client: ApiClient, claim: Object, uid: str) -> bool:
    """Whether nobody uses a claim, or is about to, beside the pod of this UID."""
    about = claim["metadata"]
    users = [*((claim.get("status") or {}).get("reservedFor") or ()), *(about.get("ownerReferences") or ())]
    others = {(str(each["name"]), str(each["uid"])) for each in users if each["uid"] != uid}
    return not any(_is_there(client, PodRef(about["namespace"], name), other) for name, other in others)


def _is_there(client: ApiClient, ref: PodRef, uid: str) -> bool:
    pod = get_or_none(client, ref.path)
    return pod is not None and pod["metadata"]["uid"] == uid


def _delete_claim(client: ApiClient, ref: PodRef, body: Object | None = None) -> GoneClaim | None:
    """None where it was gone before."""
    said = delete_if_there(client, claim_path(ref), body)
    if said is None:
        return None
    uid = str((said.get("metadata") or {}).get("uid") or (said.get("details") or {}).get("uid") or "")
    # Who comes to share a device makes it anew, under the same name.
    wait_for_claim(client, ref, lambda found: found is None or found["metadata"]["uid"] != uid)
    return (ref.namespace, ref.name), uid


def wait_for_claim(client: ApiClient, ref: PodRef, free: Callable[[Object | None], bool]) -> None:
    """Until that is so of it. Raises ProviderUnavailable, ApiRefusal, OSError."""
    deadline = time.monotonic() + MARGIN
    while not free(found := get_or_none(client, claim_path(ref))):
        if time.monotonic() > deadline:
            why = f"claim {ref.namespace}/{ref.name} is still held: the cluster's controller has not freed it"
            raise ProviderUnavailable(provider=NAME, why=why)
        assert found is not None
        next_change_of_claim(client, ref, found)


def next_change_of_claim(client: ApiClient, ref: PodRef, claim: Object) -> None:
    """Until something has happened to it since it was as it is here, or some seconds have passed."""
    path = f"{RESOURCE_API}/namespaces/{ref.namespace}/resourceclaims"
    _next_change(client, path, ref.name, str(claim["metadata"]["resourceVersion"]))


def delete_if_there(client: ApiClient, path: str, body: Object | None = None) -> Object | None:
    """What the server says; None where there is no such object. Raises ApiRefusal, OSError."""
    try:
        return client.delete(path, body)
    except ApiRefusal as refusal:
        if refusal.status != NOT_FOUND:
            raise
        return None


def wait_for_pod(
    client: ApiClient, ref: PodRef, pod: Object, enough: Callable[[Object | None], bool], seconds: float
) -> Object | None:
    """The pod, None when it is gone, once that is enough or time is over. Raises ApiRefusal, OSError."""
    deadline = time.monotonic() + seconds
    seen = get_or_none(client, ref.path)
    while not enough(seen) and time.monotonic() < deadline:
        version = str((seen or pod)["metadata"]["resourceVersion"])
        _next_change(client, namespaced("pods", ref.namespace), ref.name, version)
        seen = get_or_none(client, ref.path)
    return seen


def _next_change(client: ApiClient, path: str, name: str, version: str) -> None:
    """Until something has happened to one object, or some seconds have passed."""
    query = {
        "watch": "1", "fieldSelector": f"metadata.name={name}", "resourceVersion": version,
        "timeoutSeconds": _SLICE,
    }  # fmt: skip
    try:
        response = client.stream(path, query, silence=_SLICE + 10)
    except ApiRefusal as refusal:
        if refusal.status != GONE:
            raise
        return time.sleep(_PAUSE)
    try:
        if json.loads(response.readline() or b"{}").get("type") == "ERROR":
            time.sleep(_PAUSE)  # Its version is too old to be watched from.
    except (HTTPError, ValueError, AttributeError):
        time.sleep(_PAUSE)  # The connection was cut: whoever waits looks again.
    finally:
        response.close()
