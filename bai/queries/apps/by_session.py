"""Apps of many sessions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from bai.queries.facts.apps import apps_of
from schemas.values.resource_ref import ref_of

if TYPE_CHECKING:
    from bai.queries.view import ClusterView
    from reconciler.values.apps.app import App

_PROXY = "AppProxy"


def apps_by_session(view: ClusterView, identities: Iterable[str]) -> Mapping[str, tuple[App, ...]]:
    """Of those that have any. Documents are loaded only where there is an AppProxy among them."""
    if not any(ref_of(identity).kind == _PROXY for identity in view.wanted):
        return {}
    found = {identity: apps_of(view.desired, view.observed, identity) for identity in identities}
    return {identity: apps for identity, apps in found.items() if apps}
