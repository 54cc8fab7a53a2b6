"""The effects on nodes: provisioning one, and probing it before it joins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from providers.abilities import ProbesHardware
from providers.base import Provider
from providers.machines.base import Endpoint
from providers.provisioning import HostResult, Provisioner, ProvisionEvent
from reconciler.observe.health import forget_health
from reconciler.values.rollout import Provision
from schemas.hardware.model import Hardware
from schemas.problems.errors.provider import ProviderUnavailable
from schemas.problems.errors.provisioning import ProvisioningFailed, ProvisioningImpossible


@dataclass(frozen=True, slots=True)
class ProvisionerAccess:
    """Who provisions, and how nodes are reached."""

    provisioner: Provisioner
    endpoints: Mapping[str, Endpoint] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Probed:
    """What a node was found to be."""

    node: str
    hardware: Hardware


NodeProgress = ProvisionEvent | HostResult | Probed


def provision_node(
    wanted: Provision, access: ProvisionerAccess | None, on_progress: Callable[[NodeProgress], None]
) -> None:
    """Bring one node to its profile. Raises ProvisioningFailed, ProvisioningImpossible, and what the
    provisioner raises."""
    if access is None:
        raise ProvisioningImpossible(provider="", why="nobody was given who does it")
    endpoint = access.endpoints.get(wanted.node)
    if endpoint is None:
        raise ProvisioningFailed(node=wanted.node, why="the cluster has no such node any more")
    result = access.provisioner.provision(wanted.target(endpoint), on_progress)
    on_progress(result)
    forget_health(wanted.node)
    if not result.ok:
        why = result.failed or ("it is not reached" if result.unreachable else "it was not said why")
        where = f" (log: {result.artefacts})" if result.artefacts else ""
        raise ProvisioningFailed(node=wanted.node, why=why + where)


def probe_node(node: str, provider: Provider, on_progress: Callable[[NodeProgress], None]) -> None:
    """See what a node is now. Raises ProviderUnavailable; a provider that cannot probe leaves it as it is
    known."""
    if not isinstance(provider, ProbesHardware):
        return
    found, failed = provider.hardware(frozenset({node}))
    if node not in found:
        why = failed.get(node, "nothing was said about it")
        raise ProviderUnavailable(provider=provider.capabilities().name, why=f"{node} was not probed: {why}")
    on_progress(Probed(node, found[node]))
