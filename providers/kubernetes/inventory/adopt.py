"""Making a pod of others one of bai's: labels and one annotation, nothing else of it is touched."""

from __future__ import annotations

from providers.base import Labels
from providers.kubernetes.api.client import ApiClient, Object
from providers.kubernetes.api.credentials import NAME
from providers.kubernetes.api.errors import CONFLICT, ApiRefusal, api_errors
from providers.kubernetes.inventory.session import AdoptablePod, ImportContext, read_session
from providers.kubernetes.objects import labels
from providers.kubernetes.objects.names import PodRef
from schemas.problems.errors.provider import ProviderError
from schemas.values.resource_ref import ref_of

_ATTEMPTS = 5


def adopt_pod(client: ApiClient, pod: AdoptablePod, marks: Labels, context: ImportContext) -> None:
    """The pod as it was read, or nothing: one that has become another meanwhile is left alone. Doing it again
    changes nothing. Raises ProviderError, ProviderUnavailable."""
    ref = PodRef(pod.namespace, pod.name)
    with api_errors():
        for _ in range(_ATTEMPTS):
            now = client.get(ref.path)
            _require_same(now, pod, ref_of(marks.resource).project, context)
            about = {
                "uid": pod.uid,
                "resourceVersion": now["metadata"]["resourceVersion"],
                "labels": labels.adopted(marks),
                "annotations": {labels.LABELS: labels.to_annotation(marks)},
            }
            try:
                client.patch(ref.path, {"metadata": about})
                return
            except ApiRefusal as refusal:
                if refusal.status != CONFLICT:
                    raise
    raise ProviderError(provider=NAME, why=f"pod {pod.namespace}/{pod.name} changes all the time")


def _require_same(now: Object, pod: AdoptablePod, project: str, context: ImportContext) -> None:
    found, why = read_session(now, project, context)
    if found is None or (found.uid, found.node, found.document) != (pod.uid, pod.node, pod.document):
        said = "; ".join(why) or "it is another one by now"
        raise ProviderError(provider=NAME, why=f"pod {pod.namespace}/{pod.name} is not adopted: {said}")
