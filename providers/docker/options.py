"""How a cluster's `docker:` options and its nodes become a provider."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError

from providers.docker.engine.connection import dialer, engine_address
from providers.docker.engine.engine import Engine
from providers.docker.provider import DockerProvider
from providers.machines.base import Endpoint, Machine
from schemas.kinds.parts.docker import CONNECTION_FIELDS, Docker
from schemas.kinds.parts.docker_network import NetworkRules
from schemas.problems.errors.provider import InvalidOption


def open_docker(
    options: Mapping[str, object], *, state_root: Path | None = None, machines: Sequence[Endpoint] = ()
) -> DockerProvider:
    """The entry point; without nodes, the engine of this machine. Raises InvalidOption."""
    nodes = machines or (Endpoint("localhost", "localhost", local=True),)
    return DockerProvider(
        {node.name: _engine(node, _parse_options(_merge_options(options, node.options))) for node in nodes}
    )


def _engine(node: Endpoint, options: Docker) -> Engine:
    found = engine_address(node, options)
    machine = _machine_getter(found.endpoint)
    return Engine(
        node.name,
        options,
        dialer(found, machine),
        machine,
        local=found.endpoint.local,
        has_machine=found.host is None,
    )


def _machine_getter(node: Endpoint) -> Callable[[], Machine]:
    """What that takes is imported only when it is asked for."""

    def get() -> Machine:
        from providers.machines.connections import connect

        return connect(node)

    return get


_PLANNED = frozenset(NetworkRules.model_fields)
"""Options that the plan has heeded: each kernel's spec says what came of them."""


def _merge_options(cluster: Mapping[str, object], node: Mapping[str, object]) -> dict[str, object]:
    """A node's own options win; a way to its engine takes the place of the cluster's, whichever that is."""
    replaced = CONNECTION_FIELDS if any(name in node for name in CONNECTION_FIELDS) else ()
    return {name: value for name, value in cluster.items() if name not in replaced} | dict(node)


def _parse_options(given: Mapping[str, object]) -> Docker:
    try:
        return Docker.model_validate(
            {name: value for name, value in given.items() if value is not None and name not in _PLANNED}
        )
    except ValidationError as error:
        first = error.errors()[0]
        raise InvalidOption(
            provider="docker", option=".".join(map(str, first["loc"])), why=first["msg"]
        ) from None
