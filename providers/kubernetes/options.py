"""How a cluster's `kubernetes:` options become a provider."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError

from providers.kubernetes.api.access import find_access
from providers.kubernetes.api.client import ApiClient
from providers.kubernetes.api.credentials import NAME
from providers.kubernetes.provider import KubernetesProvider
from providers.machines.base import Endpoint
from schemas.kinds.parts.kubernetes import Kubernetes
from schemas.problems.errors.provider import InvalidOption


def open_kubernetes(
    options: Mapping[str, object], *, state_root: Path | None = None, machines: Sequence[Endpoint] = ()
) -> KubernetesProvider:
    """The entry point; without nodes, all of the cluster. Raises InvalidOption, ProviderUnavailable."""
    try:
        parsed = Kubernetes.model_validate({k: v for k, v in options.items() if v is not None})
    except ValidationError as error:
        first = error.errors()[0]
        at = ".".join(map(str, first["loc"]))
        raise InvalidOption(provider=NAME, option=at, why=first["msg"]) from None
    client = ApiClient(find_access(parsed.context or ""))
    return KubernetesProvider(client, parsed, [node.name for node in machines])
