"""Ports as people type them: `8080:80`, or by the name that the session gives them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bai.cli.sessions.port_forwarding import PortMapping
    from planner.model.types import Placement


def port_mappings(texts: Sequence[str], named: dict[str, int]) -> list[PortMapping]:
    """What to forward. Raises CommandError for what is neither a port nor the name of one."""
    from bai.cli.sessions.port_forwarding import PortMapping
    from schemas.problems.errors.command import CommandError

    if not texts:
        if not named:
            raise CommandError(why="the session names no ports", hint="give one or more port numbers")
        return [PortMapping(port, port, name) for name, port in named.items()]
    found = []
    for text in texts:
        local, colon, wanted = text.rpartition(":")
        port = named[wanted] if wanted in named else _parse_port(wanted, named, least=1)
        own = _parse_port(local, {}, least=0) if local else 0 if colon else port
        found.append(PortMapping(own, port, wanted if wanted in named else ""))
    return found


def named_ports(document: Mapping[str, object]) -> dict[str, int]:
    """The TCP ports that the session's document names."""
    spec = document.get("spec")
    ports = spec.get("ports") if isinstance(spec, Mapping) else None
    if not isinstance(ports, Sequence):
        return {}
    return {str(port["name"]): int(port["port"]) for port in ports if port.get("protocol") != "udp"}


def listening_port(placement: Placement | None, kernel: str, port: int) -> int:
    """The port where the container listens in truth."""
    parts = placement.kernels if placement else ()
    return next((part.listening(port) for part in parts if part.kernel == kernel), port)


def _parse_port(text: str, named: dict[str, int], *, least: int) -> int:
    from bai.render.humanize import clean, join_limited
    from schemas.problems.errors.command import CommandError

    if text.isascii() and text.isdigit() and least <= int(text) <= 65535:
        return int(text)
    hint = f"the session names {join_limited(sorted(named))}" if named else "ports are 1 to 65535"
    raise CommandError(why=f"{clean(text)!r} is not a port", hint=hint)
