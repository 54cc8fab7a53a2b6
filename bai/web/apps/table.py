"""Which app an address is of, as the last pass of its cluster saw it: nobody is asked for a request."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from bai.queries.resources import owner_names
from bai.web.cluster_loops import ClusterLoops, ServedCluster
from reconciler.controller.cycle import ReconcileCycle
from reconciler.values.apps.app import App
from reconciler.values.apps.directory import AppDirectory
from reconciler.values.apps.ports import app_key, port_map
from reconciler.values.apps.standing import ServiceStanding, standings
from schemas.kinds.app_proxy import AppProxy
from schemas.kinds.parts.apps import ACCESS_LEVELS
from schemas.values.app_protocols import APP_PROTOCOLS
from schemas.values.naturals import parse_natural

if TYPE_CHECKING:
    from reconciler.values.services.pattern import ServicePattern
    from reconciler.values.state import Existing
    from schemas.kinds.session import Session
    from schemas.repository.repository import Repository

_MOST_FOUND = 4096


@dataclass
class AppSite:
    """Where the apps of one cluster are, as of one pass of it."""

    cluster: ServedCluster
    directory: AppDirectory
    sessions: Mapping[str, Session]
    services: Mapping[str, ServicePattern]
    standings: Mapping[str, ServiceStanding]
    repository: Repository
    existing: Mapping[str, Existing]
    _found: dict[str, FoundApp] = field(default_factory=dict)

    @property
    def proxy(self) -> AppProxy:
        return self.directory.proxy

    @cached_property
    def _ending(self) -> str:
        """Empty where no app has a name of its own."""
        return (self.proxy.spec.url or "").partition("*")[2]

    def covers(self, host: str) -> bool:
        """Whether an app could have this name."""
        ending = self._ending
        return bool(ending) and host.endswith(ending) and "." not in host[: -len(ending)]

    def at(self, host: str) -> FoundApp:
        """`host` as browsers name it, with its port."""
        known = self._found.get(host)
        if known is not None:
            return known
        made = self._look(host.removesuffix(self._ending))
        if made.app is not None and made.app.host != host:
            return FoundApp(self, None, frozenset())  # It is reached by a port.
        if made.app is not None and len(self._found) < _MOST_FOUND:
            self._found[host] = made
        return made

    def covers_port(self, number: int) -> bool:
        """Whether an app of HTTP could have this port."""
        span = self.proxy.spec.ports.http if self.proxy.spec.ports is not None else None
        return span is not None and span[0] <= number <= span[1]

    def host_of(self, number: int) -> str:
        """What browsers say who come to this port."""
        assert self.proxy.spec.ports is not None
        return f"{self.proxy.spec.ports.host}:{number}"

    def at_port(self, number: int) -> FoundApp:
        """What speaks HTTP at this port."""
        host = self.host_of(number)
        known = self._found.get(host)
        if known is not None:
            return known
        app = self.directory.at_port(number, self.existing, self.standings)
        made = self._judged(app if app is not None and app.protocol in APP_PROTOCOLS else None, number)
        if made.app is not None and len(self._found) < _MOST_FOUND:
            self._found[host] = made
        return made

    def has(self, name: str) -> bool:
        """Whether there is an app with this host name, without a port."""
        ports = self.proxy.spec.ports
        if ports is not None and ports.http is not None and name == ports.host:
            return True
        domain = f".{self.proxy.spec.domain}"
        return (
            len(domain) > 1
            and name.endswith(domain)
            and self._look(name.removesuffix(domain)).app is not None
        )

    def named(self, project: str, session: str, name: str) -> FoundApp:
        app = self.directory.named(name, session, project, self.existing, self.standings)
        by_port = self.directory.ports.numbers.get(app_key(app.identity, name), 0) if app is not None else 0
        return self._judged(app, by_port)

    def _look(self, label: str) -> FoundApp:
        return self._judged(self.directory.find(label, self.existing, self.standings))

    def _judged(self, app: App | None, port: int = 0) -> FoundApp:
        if app is None:
            return FoundApp(self, None, frozenset(), port)
        widest = self.proxy.spec.widest
        if ACCESS_LEVELS.index(app.access) > ACCESS_LEVELS.index(widest):
            app = replace(app, access=widest)
        owners = owner_names({app.owner}, self.repository) if app.owner else frozenset[str]()
        return FoundApp(self, app, owners, port)


@dataclass(frozen=True, slots=True)
class FoundApp:
    """What an address below a site is of; `app` None: of nothing. `owners`: names in lower case by which the
    owner of its session is known; `port`: of the AppProxy's host, 0 for what has a name of its own."""

    site: AppSite
    app: App | None
    owners: Collection[str]
    port: int = 0

    @property
    def secure(self) -> bool:
        """Whether browsers come by HTTPS, whoever ends that."""
        spec = self.site.proxy.spec
        if self.port:
            return spec.ports is not None and spec.ports.tls
        return (spec.url or "").startswith("https:")

    def origin(self, host: str) -> str:
        return f"{'https' if self.secure else 'http'}://{host}"


class AppTable:
    """All apps of a server."""

    def __init__(self, loops: ClusterLoops) -> None:
        self._loops = loops
        self._known: dict[str, tuple[ReconcileCycle, AppSite | None]] = {}

    def at(self, host: str) -> FoundApp | None:
        """None for an address that none of them could have."""
        for name in self._loops.clusters:
            site = self.site(name)
            if site is not None and site.covers(host):
                return site.at(host)
        return None

    def at_port(self, number: int, host: str) -> FoundApp | None:
        """What a connection that arrived at this port is for, if it names that very host; None for a port,
        or a host, that none of them could have."""
        for name in self._loops.clusters:
            site = self.site(name)
            if site is not None and site.covers_port(number):
                return site.at_port(number) if host == site.host_of(number) else None
        return None

    def addressed(self, address: str) -> FoundApp | None:
        """What is at an address that somebody has written down: a name, or a host and its port."""
        number = parse_natural(address.rpartition(":")[2], 65_535) if ":" in address else None
        return self.at(address) or (self.at_port(number, address) if number else None)

    def has(self, name: str) -> bool:
        """Whether there is an app with this host name, on whichever port browsers come."""
        sites = filter(None, map(self.site, self._loops.clusters))
        return any(site.has(name) for site in sites)

    def site(self, cluster: str) -> AppSite | None:
        """None where no documents say where its apps are, and before there was a pass."""
        served = self._loops.clusters[cluster]
        done = served.good
        if done is None or done.desired is None or done.actual is None:
            return None
        known = self._known.get(cluster)
        if known is not None and known[0] is done:
            return known[1]
        site = _site_of(served, done, known[1] if known is not None else None)
        self._known[cluster] = done, site
        return site


def _site_of(served: ServedCluster, done: ReconcileCycle, before: AppSite | None) -> AppSite | None:
    assert done.desired is not None and done.actual is not None
    repository, sessions = done.desired.repository, done.desired.sessions()
    services = done.desired.services
    proxy = repository.app_proxy_of(served.name)
    if proxy is None:
        return None
    ports = port_map(done.desired, done.actual)
    same = (
        before is not None
        and before.proxy is proxy
        and before.sessions is sessions
        and before.services is services
        and before.directory.ports is ports
    )
    if same and before is not None:
        directory = before.directory
    else:
        directory = AppDirectory(proxy, sessions, services, ports)
    planned = standings(done.plan.services) if done.plan is not None else {}
    return AppSite(served, directory, sessions, services, planned, repository, done.actual.existing)
