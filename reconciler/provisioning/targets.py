"""What each node is to be, from its document, its profile's and its cluster's. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from providers.condition.fingerprint import fingerprint
from providers.machines.base import Endpoint
from providers.provisioning import ProvisionTarget
from reconciler.values.state import Desired
from schemas.kinds.cluster import Cluster
from schemas.profile import NodeProfile
from schemas.profile.variables import role_variables, secret_references
from schemas.values.resource_ref import identity_of


def provision_targets(
    desired: Desired, endpoints: Iterable[Endpoint], digest: Callable[[frozenset[str]], str]
) -> dict[str, ProvisionTarget]:
    """The nodes that have a profile, by name. `digest` is that of the roles it is given."""
    reached = {endpoint.name: endpoint for endpoint in endpoints}
    cluster = desired.resources.get(identity_of("Cluster", desired.cluster))
    never = isinstance(cluster, Cluster) and cluster.spec.provisioning.reboot == "never"
    found = {}
    known: dict[str, tuple[dict[str, Any], dict[str, str], str]] = {}
    for node in desired.nodes:
        profile = desired.repository.profile_of(node)
        if profile is None:
            continue
        if profile.name not in known:
            known[profile.name] = _role_values(profile, digest)
        variables, secrets, print_ = known[profile.name]
        spec = profile.spec
        found[node.name] = ProvisionTarget(
            node.name, reached[node.name], profile.name, spec.roles, variables, secrets,
            _profile_spec(desired, profile), print_, spec.os,
            reboot_allowed=spec.reboot.allowed and not never, reboot_timeout=int(spec.reboot.timeout),
        )  # fmt: skip
    return found


def _role_values(
    profile: NodeProfile, digest: Callable[[frozenset[str]], str]
) -> tuple[dict[str, Any], dict[str, str], str]:
    spec = profile.spec
    variables = {name: value for part in role_variables(spec).values() for name, value in part.items()}
    secrets = secret_references(spec)
    whole = fingerprint(spec.roles, variables, secrets, spec.os, digest(frozenset(spec.roles)))
    return variables, secrets, whole


def _profile_spec(desired: Desired, profile: NodeProfile) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", desired.documents[profile.identity].get("spec", {}))
