"""Ports of hosts that apps of a server's clusters are reached at, as the last passes saw them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from bai.web.apps.proxy.app_proxy import PortRangeSite
from bai.web.apps.proxy.balancer import Balancer, place_of
from bai.web.apps.proxy.ports.tcp_ports import TcpPorts, TcpTarget
from bai.web.apps.proxy.service_way import ServiceWay, Terms
from providers.machines.relay import DialledWay, Way
from reconciler.values.apps.app import service_apps, session_apps
from reconciler.values.apps.ports import port_map
from reconciler.values.apps.standing import standing_of
from schemas.values.resource_ref import ref_of

if TYPE_CHECKING:
    from bai.web.cluster_loops import ServedCluster
    from providers.machines.base import Stream
    from reconciler.controller.cycle import ReconcileCycle
    from reconciler.values.apps.app import App
    from schemas.kinds.app_proxy import AppProxy

NOT_RUNNING = "its session does not run"


def range_site(cluster: ServedCluster) -> PortRangeSite | None:
    """Where apps of HTTP of a cluster have ports; None where no document says it."""
    proxy = cluster.app_proxy
    ports = proxy.spec.ports if proxy is not None else None
    if ports is None or ports.http is None:
        return None
    return PortRangeSite(ports.host, ports.scheme, ports.sources, *ports.http)


class MappedTcp:
    """The ports of raw TCP. `dial`: a place and its port; `say` hears what goes wrong."""

    def __init__(
        self, host: str, clusters: Mapping[str, ServedCluster], balancer: Balancer,
        dial: Callable[[str, int], Stream], say: Callable[[str], None],
    ) -> None:  # fmt: skip
        self._clusters, self._balancer, self._dial = clusters, balancer, dial
        self._ports = TcpPorts(host, self._way_to, say)

    @property
    def failures(self) -> Mapping[int, str]:
        """Port to why it cannot be had."""
        return self._ports.failures

    def follow(self) -> None:
        """As the last pass of each cluster saw them."""
        targets: dict[int, TcpTarget] = {}
        for cluster in self._clusters.values():
            for number, target in _targets(cluster):
                targets.setdefault(number, target)
        self._ports.follow(targets, self._is_gone)

    def close(self) -> None:
        self._ports.close()

    def _is_gone(self, target: TcpTarget) -> bool:
        """Whether documents want its session or service no more."""
        done = _seen(self._clusters[target.cluster])
        return done is None or done.desired is None or target.identity not in done.desired.digests

    def _way_to(self, target: TcpTarget) -> Way:
        if ref_of(target.identity).kind == "Service":
            service = place_of(target.cluster, target.identity)
            return ServiceWay(self._balancer, service, target.port, self._dial, Terms(target.hold))
        return DialledWay(partial(self._dial_session, target))

    def _dial_session(self, target: TcpTarget) -> Stream:
        """The container that it has now. Raises BaiError, OSError."""
        done = self._clusters[target.cluster].good
        actual = done.actual if done is not None else None
        existing = actual.existing.get(target.identity) if actual is not None else None
        record = existing.recorded if existing is not None else None
        if existing is None or existing.phase != "RUNNING" or record is None:
            raise ConnectionRefusedError(NOT_RUNNING)
        if record.placement is None or not record.placement.kernels or not record.kernels:
            raise ConnectionRefusedError(NOT_RUNNING)
        port = record.placement.kernels[0].listening(target.port)
        return self._dial(place_of(target.cluster, record.kernels[0]), port)


def _targets(cluster: ServedCluster) -> Iterator[tuple[int, TcpTarget]]:
    done, proxy = _seen(cluster), cluster.app_proxy
    if done is None or done.desired is None or done.actual is None or proxy is None:
        return
    ports = proxy.spec.ports
    if ports is None or ports.tcp is None or proxy.spec.widest != "public":
        return
    first, last = ports.tcp
    mapped = port_map(done.desired, done.actual)
    for number, key in mapped.owners().items():
        identity, _, name = key.partition(" ")
        if first <= number <= last and (app := _app(done, proxy, identity, name)) is not None:
            yield number, TcpTarget(cluster.name, identity, name, ports.sources, app.port, app.hold)


def _app(done: ReconcileCycle, proxy: AppProxy, identity: str, name: str) -> App | None:
    """One that everybody may reach."""
    assert done.desired is not None
    found: Iterable[App] = ()
    if (pattern := done.desired.services.get(identity)) is not None:
        found = service_apps(proxy, pattern, standing_of(None))
    elif (session := done.desired.sessions().get(identity)) is not None:
        found = session_apps(proxy, session, None)
    return next((each for each in found if each.name == name and each.access == "public"), None)


def _seen(cluster: ServedCluster) -> ReconcileCycle | None:
    return cluster.good or cluster.latest
