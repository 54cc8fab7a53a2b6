"""The apps of a server's clusters: where their documents say they are, and how their kernels and replicas are
reached."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from bai.web.apps.mapped_ports import MappedTcp, range_site
from bai.web.apps.proxy.app_proxy import AppProxyServer, AppProxySettings
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
    from schemas.kinds.app_proxy import AppProxySpec

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
        proxies = [each.spec for each in (one.app_proxy for one in clusters.values()) if each is not None]
        urls = tuple(sorted({each.url for each in proxies if each.url}))
        sites = tuple(filter(None, map(range_site, clusters.values())))
        own = clusters[done.cluster]
        node = own.app_proxy.spec.node if own.app_proxy is not None else None
        foremost = self._shared[done.cluster].is_foremost
        self.links.follow(done.cluster, node or "", own.loop.workspace.endpoints(), foremost)
        self._tell(proxies)
        with self._following:
            self.proxy.serve(urls, sites if self._listens else ())
            if self._listens:
                self._tcp.follow()
            failures = {**self.proxy.failures, **self._tcp.failures}
        for cluster in clusters.values():
            cluster.unbound_ports = failures

    def _tell(self, proxies: Sequence[AppProxySpec]) -> None:
        told = way_in_doubt(
            proxies, listens=self._listens, encrypted=self._encrypted, by_node=bool(self.links.nodes)
        )
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


def way_in_doubt(proxies: Sequence[AppProxySpec], *, listens: bool, encrypted: bool, by_node: bool) -> str:
    """Why nobody comes to some of the apps that documents tell of; empty where nothing keeps them away.
    `listens`: whether the server does itself, `encrypted` with TLS; `by_node`: whether there is a way by a
    node."""
    urls = sorted(each.url for each in proxies if each.url)
    mapped = [each.ports for each in proxies if each.ports is not None]
    plain = [url for url in urls if url.startswith("http:")]
    plain += [f"{each.scheme}://{each.host}" for each in mapped if each.http and each.scheme == "http"]
    if plain and listens and encrypted:
        return f"{plain[0]} is without TLS, and --apps-tls is not off: no browser comes there"
    if mapped and not listens:
        return f"ports of {mapped[0].host} are mapped where --apps-listen is given an address"
    if urls and not listens and not by_node:
        return "no AppProxy names a node, and --apps-listen node listens nowhere else"
    return "" if proxies else "no AppProxy says at which URLs they are"


def _store_of(loop: Loop) -> Store:
    """Of the workspace that it has just now."""
    return loop.workspace.store


def _leads(loop: Loop) -> bool:
    return loop.leads()


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
