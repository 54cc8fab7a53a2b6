"""The effects on nodes: provisioning one, and probing it before it joins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from providers.abilities import Probes
from providers.base import Provider
from providers.machines.base import Endpoint
from providers.provisioning import HostResult, Provisioner, ProvisionEvent
from reconciler.values.rollout import Provision
from schemas.hardware.model import Hardware
from schemas.problems.errors import ProviderUnavailable, ProvisioningFailed, ProvisioningImpossible


@dataclass(frozen=True, slots=True)
class Site:
    """Who provisions, and how nodes are reached."""

    provisioner: Provisioner
    endpoints: Mapping[str, Endpoint] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Probed:
    """What a node was found to be."""

    node: str
    hardware: Hardware


NodeNews = ProvisionEvent | HostResult | Probed


def provision(wanted: Provision, site: Site | None, tell: Callable[[NodeNews], None]) -> None:
    """Bring one node to its profile. Raises ProvisioningFailed, ProvisioningImpossible, and what the
    provisioner raises."""
    from reconciler.observe.health import forget

    if site is None:
        raise ProvisioningImpossible(provider="", why="nobody was given who does it")
    endpoint = site.endpoints.get(wanted.node)
    if endpoint is None:
        raise ProvisioningFailed(node=wanted.node, why="the cluster has no such node any more")
    result = site.provisioner.provision(wanted.target(endpoint), tell)
    tell(result)
    forget(wanted.node)
    if not result.ok:
        why = result.failed or ("it is not reached" if result.unreachable else "it was not said why")
        where = f" (log: {result.artefacts})" if result.artefacts else ""
        raise ProvisioningFailed(node=wanted.node, why=why + where)


def probe(node: str, provider: Provider, tell: Callable[[NodeNews], None]) -> None:
    """See what a node is now. Raises ProviderUnavailable; a provider that cannot probe leaves it as it is
    known."""
    if not isinstance(provider, Probes):
        return
    found, failed = provider.hardware(frozenset({node}))
    if node not in found:
        why = failed.get(node, "nothing was said about it")
        raise ProviderUnavailable(provider=provider.capabilities().name, why=f"{node} was not probed: {why}")
    tell(Probed(node, found[node]))
