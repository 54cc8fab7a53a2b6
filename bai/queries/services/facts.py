"""Services as they are shown, and their replicas."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from bai.render.humanize import join_limited
from bai.render.resources.services import ServiceFacts
from reconciler.values.apps.app import service_apps
from reconciler.values.apps.ports import port_map
from reconciler.values.apps.standing import standing_of
from reconciler.values.documents.service_replicas import replica_of

if TYPE_CHECKING:
    from bai.queries.view import ClusterView
    from reconciler.values.apps.app import App
    from reconciler.values.services.state import RolloutOrder
    from reconciler.values.services.status import ServiceStatus
    from reconciler.values.state import Actual, Desired, Existing


def service_facts(view: ClusterView, identity: str) -> ServiceFacts:
    """Raises what looking raises."""
    actual, status = view.observed, view.services.get(identity)
    sessions = [each.session for each in status.replicas] if status is not None else []
    return ServiceFacts(
        id=identity,
        now=view.now,
        written=identity in view.wanted,
        item=actual.existing.get(identity),
        status=status,
        nodes={each: nodes for each in sessions if (nodes := _nodes(actual.existing.get(each)))},
        apps=_apps(view.desired, actual, identity, status),
        order=_order(actual, identity, status),
    )


def _apps(desired: Desired, actual: Actual, identity: str, status: ServiceStatus | None) -> tuple[App, ...]:
    """Under the URLs of the service itself, where its cluster has an AppProxy."""
    pattern = desired.services.get(identity)
    proxy = desired.repository.app_proxy_of(desired.cluster) if pattern is not None else None
    if pattern is None or proxy is None:
        return ()
    return tuple(service_apps(proxy, pattern, standing_of(status), port_map(desired, actual)))


def _nodes(item: Existing | None) -> str:
    placement = item.recorded.placement if item is not None else None
    return join_limited(dict.fromkeys(each.node for each in placement.kernels), 3) if placement else ""


def _order(actual: Actual, identity: str, status: ServiceStatus | None) -> RolloutOrder | None:
    """One against another document than the present one means nothing."""
    order = actual.rollout_orders.get(identity)
    stale = order is not None and status is not None and order.against != status.latest
    return None if stale else order


def known_services(actual: Actual) -> set[str]:
    """Identities of those that are recorded, or that have replicas."""
    found = {replica_of(item) for item in actual.existing.values()}
    return {each.service for each in found if each is not None} | actual.existing.keys()


def replicas_of(actual: Actual, service: str) -> list[Existing]:
    """The replicas that are recorded or run, by generation and number."""
    found = []
    for item in actual.existing.values():
        ref = replica_of(item)
        if ref is not None and ref.service == service:
            found.append((ref.generation, ref.number, item))
    return [item for _, _, item in sorted(found, key=lambda each: each[:2])]


def short_names(identities: Iterable[str]) -> str:
    """Sessions by their names alone, as a hint has them."""
    from bai.render.humanize import clean
    from schemas.values.resource_ref import ref_of

    return join_limited([clean(ref_of(each).name) for each in identities])
