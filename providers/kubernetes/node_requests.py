"""Asking cluster-autoscaler for nodes, and no longer."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import Any

from providers.autoscaling.values import AskedNodes, NodeRequest, owner_mark
from providers.kubernetes.api.client import ApiClient, Object
from providers.kubernetes.api.credentials import NAME
from providers.kubernetes.api.errors import CONFLICT, FORBIDDEN, NOT_FOUND, ApiRefusal, api_errors
from providers.kubernetes.objects.names import namespaced
from providers.kubernetes.objects.node_request import (
    API,
    DEVICE_CLASSES,
    OWNER,
    RESOURCE,
    claim_manifests,
    owned_by,
    parse_anchor,
    parse_request,
    request_manifest,
    request_path,
    template_manifests,
    template_path,
)
from providers.kubernetes.observe.node_asks import joined
from providers.kubernetes.observe.observer import Observer
from schemas.kinds.parts.kubernetes import Kubernetes
from schemas.problems.errors.provider import ProviderUnavailable


class NodeRequester:
    """Cut off anywhere, what is there is found by the next look, and made whole or taken away."""

    def __init__(self, client: ApiClient, options: Kubernetes, observer: Observer) -> None:
        self._client = client
        self._options = options
        self._observer = observer

    def ask(self, request: NodeRequest) -> None:
        """The ProvisioningRequest comes last: an autoscaler gives up one whose PodTemplates are not there.
        Raises ProviderError."""
        with api_errors():
            known = self._observer.asks.look().anchors.objects.get(request.key)
            token = known.token if known else secrets.token_hex(4)
            counted = self._counted_slots()
            first, *others = template_manifests(request, token, counted)
            uid = known.anchor_uid if known else self._make_anchor(request, first)
            anchor = {"name": request.name, "uid": uid}
            for claim in claim_manifests(request, token, counted):
                self._make(namespaced("resourceclaims", request.namespace), owned_by(anchor, claim))
            for template in others:
                self._make(template_path(request.namespace), owned_by(anchor, template))
            body = owned_by(anchor, request_manifest(request, token))
            if (made := self._make(request_path(request.namespace), body)) is not None:
                self._observer.asks.requests.record(made)

    def _counted_slots(self) -> frozenset[str]:
        """Slots of devices that nobody in the cluster publishes: without a class of theirs no claim can ask
        for them, and nodes that have them count them. Raises ApiRefusal, OSError."""
        classes = self._observer.device_classes()
        return frozenset(slot for slot, name in DEVICE_CLASSES.items() if name not in classes)

    def _make_anchor(self, request: NodeRequest, body: Object) -> str:
        made = self._make(template_path(request.namespace), body)
        if made is None:
            why = f"PodTemplate {request.namespace}/{request.name} is there already; the next pass finds it"
            raise ProviderUnavailable(provider=NAME, why=why)
        self._observer.asks.anchors.record(made)
        return str(made["metadata"]["uid"])

    def _make(self, path: str, body: Mapping[str, Any]) -> Object | None:
        """None where it is there already, from an attempt that was cut off."""
        try:
            return self._client.create(path, body)
        except ApiRefusal as refusal:
            if refusal.status != CONFLICT:
                raise
            return None

    def withdraw(self, asked: AskedNodes) -> None:
        """The request first, so that no node comes for it any more, and its claims, which count against
        quotas; the rest goes with the first PodTemplate. Raises ProviderError."""
        asks, ledger = self._observer.asks, self._observer.ledger
        with api_errors():
            if asked.request_uid:
                self._delete(request_path(*asked.key), asked.request_uid)
                asks.requests.forget(asked.key, asked.request_uid)
            for claim in ledger.asked():
                if (claim.namespace, claim.request) == asked.key:
                    self._delete(f"{namespaced('resourceclaims', claim.namespace)}/{claim.name}")
            if asked.anchor_uid:
                self._delete(template_path(*asked.key), asked.anchor_uid)
                asks.anchors.forget(asked.key, asked.anchor_uid)

    def _delete(self, path: str, uid: str = "") -> None:
        """Nothing where it is gone, or another one has its name."""
        try:
            self._client.delete(path, {"preconditions": {"uid": uid}} if uid else None)
        except ApiRefusal as refusal:
            if refusal.status not in (NOT_FOUND, CONFLICT):
                raise

    def left(self, repo: str, cluster: str) -> tuple[AskedNodes, ...]:
        """Asked of the API server now. Raises ProviderError."""
        query = {"labelSelector": f"{OWNER}={owner_mark(repo, cluster)}"}
        inside = "" if self._options.several_namespaces else f"/namespaces/{self._options.namespace}"
        kinds: tuple[tuple[str, Callable[[Any, Kubernetes], AskedNodes | None]], ...] = (
            (f"{API}{inside}/{RESOURCE}", parse_request),
            (f"/api/v1{inside}/podtemplates", parse_anchor),
        )
        found = []
        with api_errors():
            for path, parse in kinds:
                try:
                    items = self._client.list(path, query).items
                except ApiRefusal as refusal:
                    if refusal.status not in (FORBIDDEN, NOT_FOUND):
                        raise
                    return ()  # Who may not see them has made none.
                found.append([each for each in (parse(item, self._options) for item in items) if each])
        requests, anchors = found
        return tuple(joined(requests, anchors).values())
