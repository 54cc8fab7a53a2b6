"""The apps of a server's clusters: where their documents say they are, and how their kernels and replicas are
reached."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from bai.web.apps.mapped_ports import MappedTcp, range_site
from bai.web.apps.proxy.app_proxy import AppProxyServer, AppProxySettings, PortRangeSite
from bai.web.apps.proxy.balancer import place_of
from bai.web.apps.proxy.node_links import NodeLinks
from bai.web.apps.proxy.tunnels import Tunnels
from bai.web.apps.replica_traffic import ReplicaTraffic
from bai.web.apps.shared_traffic import SharedTraffic
from providers.machines.base import Stream
from providers.required_abilities import require_port_forward
from schemas.problems.errors.kernel import KernelNotFound, PortRefused

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from bai.web.cluster_loops import ClusterLoops, ServedCluster
    from planner.model.types import Placement
    from reconciler.controller.cycle import ReconcileCycle
    from reconciler.controller.loop import Loop
    from reconciler.store.store import Store
    from reconciler.values.apps.app import App
    from reconciler.values.services.readiness import Readiness
    from schemas.kinds.app_proxy import AppProxy

PROVIDER = "apps"


class ServedApps:
    """From `start`, before the loops run, to `close`. `make_gate` is given where Caddy reaches an app."""

    def __init__(
        self,
        settings: AppProxySettings,
        listener: socket.socket | None,
        loops: ClusterLoops,
        make_gate: Callable[[Callable[[App], str]], ASGIApp],
        say: Callable[[str], None],
    ) -> None:
        self._loops = loops
        self._say = say
        self._listens = listener is not None
        self._encrypted = settings.certificates is not None
        self._told = ""
        self._following = threading.Lock()
        self._traffic: dict[str, ReplicaTraffic] = {}
        self._shared: dict[str, SharedTraffic] = {}
        self.ready: Callable[[str, str], Readiness | None] | None = None
        """How a cluster's replica (identity of its session) answers just now, where that is not for the
        cluster's loop to say; may be set until `start`."""
        self.proxy = AppProxyServer(
            settings, (), listener, lambda tunnels: make_gate(lambda app: self._address(tunnels, app)),
            self._dial, say,
        )  # fmt: skip
        self.links = NodeLinks(self.proxy.entry, self.proxy.folder, say)
        self._tcp = MappedTcp(
            listener.getsockname()[0] if listener is not None else "", loops.clusters,
            self.proxy.tunnels.balancer, self._dial, say,
        )  # fmt: skip

    def start(self) -> None:
        """Raises CommandError where Caddy does not start."""
        self.proxy.start()
        for name, cluster in self._loops.clusters.items():
            asked = cluster.loop.workspace.replicas.ready
            ready = partial(self.ready, name) if self.ready is not None else asked
            balancer, loop = self.proxy.tunnels.balancer, cluster.loop
            shared = SharedTraffic(name, balancer, partial(_store_of, loop), partial(_leads, loop))
            self._shared[name] = shared
            shared.start()
            traffic = ReplicaTraffic(name, balancer, self._say, loop.wake, ready, shared)
            self._traffic[name] = cluster.loop.traffic = traffic
            cluster.loop.workspace.scaling.source = traffic
            cluster.listeners.append(self._on_pass)

    def close(self) -> None:
        self.links.close()
        self._tcp.close()
        self.proxy.close()
        for each in self._shared.values():
            each.close()

    def _on_pass(self, done: ReconcileCycle) -> None:
        """Documents may say now that apps are elsewhere, and certificates may have been renewed."""
        if done.plan is not None and done.actual is not None:
            self._traffic[done.cluster].follow(done.plan, done.actual)
        if done.desired is None:
            return
        services = done.desired.services.items()
        self._shared[done.cluster].scaled = frozenset(
            identity for identity, each in services if each.service.spec.autoscaling is not None
        )
        clusters = self._loops.clusters
        urls = tuple(sorted(set(filter(None, map(_url_of, clusters.values())))))
        sites = tuple(filter(None, map(range_site, clusters.values())))
        own = clusters[done.cluster]
        foremost = self._shared[done.cluster].is_foremost
        self.links.follow(done.cluster, _node_of(own), own.loop.workspace.endpoints(), foremost)
        self._tell(urls, sites)
        with self._following:
            self.proxy.serve(urls, sites if self._listens else ())
            if self._listens:
                self._tcp.follow()
            failures = {**self.proxy.failures, **self._tcp.failures}
        for cluster in clusters.values():
            cluster.unbound_ports = failures

    def _tell(self, urls: tuple[str, ...], sites: tuple[PortRangeSite, ...]) -> None:
        told = "" if urls or sites else "no AppProxy says at which URLs they are"
        if urls and not self._listens and not self.links.nodes:
            told = "no AppProxy names a node, and --apps-listen node listens nowhere else"
        if sites and not self._listens:
            told = f"ports of {sites[0].host} are mapped where --apps-listen is given an address"
        plain = [url for url in urls if url.startswith("http:")]
        plain += [f"{site.scheme}://{site.host}" for site in sites if site.scheme == "http"]
        if plain and self._listens and self._encrypted:
            told = f"{plain[0]} is without TLS, and --apps-tls is not off: no browser comes there"
        if told and told != self._told:
            self._say(told)
        self._told = told

    def _address(self, tunnels: Tunnels, app: App) -> str:
        """Raises KernelNotFound, PortRefused."""
        if app.kind == "Service":
            return self._service_address(tunnels, app)
        for name, cluster in self._loops.clusters.items():
            placement = _placement_of(cluster, app)
            if placement is not None:
                port = placement.kernels[0].listening(app.port)
                try:
                    return tunnels.address(place_of(name, app.kernel), port)
                except OSError as error:
                    why = error.strerror or str(error)
                    raise PortRefused(provider=PROVIDER, kernel=app.kernel, port=port, why=why) from error
        raise KernelNotFound(provider=PROVIDER, kernel=app.kernel)

    def _service_address(self, tunnels: Tunnels, app: App) -> str:
        """Raises PortRefused."""
        why = "no replica is ready"
        for name in self._loops.clusters:
            service = place_of(name, app.identity)
            if app.hold or tunnels.balancer.can_serve(service):
                try:
                    # Others greet before they answer.
                    timed = app.protocol == "http"
                    return tunnels.service_address(service, app.port, app.hold, timed=timed)
                except OSError as error:
                    why = error.strerror or str(error)
        raise PortRefused(provider=PROVIDER, kernel=app.identity, port=app.port, why=why)

    def _dial(self, place: str, port: int) -> Stream:
        name, _, kernel = place.partition("/")
        workspace = self._loops.clusters[name].loop.workspace
        return require_port_forward(workspace.provider, workspace.cluster).dial(kernel, port)


def _store_of(loop: Loop) -> Store:
    """Of the workspace that it has just now."""
    return loop.workspace.store


def _leads(loop: Loop) -> bool:
    return loop.leads()


def _url_of(cluster: ServedCluster) -> str:
    """Empty where no document says it."""
    proxy = _proxy_of(cluster)
    return (proxy.spec.url or "") if proxy is not None else ""


def _node_of(cluster: ServedCluster) -> str:
    """Where browsers come in; empty where no document names a node."""
    proxy = _proxy_of(cluster)
    return (proxy.spec.node or "") if proxy is not None else ""


def _proxy_of(cluster: ServedCluster) -> AppProxy | None:
    done = cluster.good or cluster.latest
    if done is None or done.desired is None:
        return None
    return done.desired.repository.app_proxy_of(cluster.name)


def _placement_of(cluster: ServedCluster, app: App) -> Placement | None:
    """Where this very kernel was placed; None where it is none of this cluster's."""
    done = cluster.good
    existing = (
        done.actual.existing.get(app.identity) if done is not None and done.actual is not None else None
    )
    record = existing.recorded if existing is not None else None
    if record is None or record.placement is None or not app.kernel or app.kernel not in record.kernels:
        return None
    return record.placement if record.placement.kernels else None
