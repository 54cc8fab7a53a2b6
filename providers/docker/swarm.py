"""Which engines form a Docker Swarm, and can therefore have networks that span them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class SwarmStatus:
    """What an engine says of its part in a swarm. `cluster`: the swarm's id, which only managers know."""

    state: str
    error: str = ""
    own: str = ""
    cluster: str = ""
    managers: tuple[str, ...] = ()


def parse_swarm_status(info: Mapping[str, Any]) -> SwarmStatus:
    """Of an engine's `GET /info`."""
    swarm = info.get("Swarm") or {}
    return SwarmStatus(
        str(swarm.get("LocalNodeState") or "inactive"),
        str(swarm.get("Error") or "").strip(),
        str(swarm.get("NodeID") or ""),
        str((swarm.get("Cluster") or {}).get("ID") or "") if swarm.get("ControlAvailable") else "",
        tuple(str(each["NodeID"]) for each in swarm.get("RemoteManagers") or ()),
    )


@dataclass(frozen=True, slots=True)
class SwarmMember:
    """One engine. `domain`: the swarm's id, empty where no manager of it is among the engines; then `why`."""

    domain: str = ""
    manager: bool = False
    why: str = ""


def swarm_members(parts: Mapping[str, SwarmStatus]) -> dict[str, SwarmMember]:
    """Node → its part in a swarm. Pure.

    Only managers know their swarm's id, and only they make networks; a worker knows its managers.
    """
    ids = {each.own: each.cluster for each in parts.values() if each.cluster}
    return {node: _swarm_member(each, ids) for node, each in parts.items()}


def _swarm_member(found: SwarmStatus, ids: Mapping[str, str]) -> SwarmMember:
    if found.state != "active":
        error = f": {found.error}" if found.error else ""
        return SwarmMember(
            why=NOT_IN_SWARM if found.state == "inactive" else f"its swarm is {found.state}{error}"
        )
    domain = next((ids[node] for node in (found.own, *found.managers) if node in ids), "")
    if domain:
        return SwarmMember(domain, manager=found.own in ids)
    return SwarmMember(
        why="no manager of its swarm is a node of this cluster, so that no network can be made"
    )


NOT_IN_SWARM = "is in no swarm (docker swarm init, docker swarm join)"


class Swarms:
    """What the engines say about swarms, as last looked at. `ask`: every engine that answers, and
    what it says."""

    def __init__(self, ask: Callable[[], Mapping[str, SwarmStatus]]) -> None:
        self._ask = ask
        self._lock = threading.Lock()
        self._members: dict[str, SwarmMember] | None = None

    def members(self) -> Mapping[str, SwarmMember]:
        with self._lock:
            if self._members is None:
                self._members = swarm_members(self._ask())
            return self._members

    def refresh(self) -> None:
        """Ask anew, the next time that anybody wants to know."""
        with self._lock:
            self._members = None

    def overlays(self) -> dict[str, str]:
        """Node → swarm, as `Capabilities.overlays`."""
        return {node: member.domain for node, member in self.members().items() if member.domain}

    def no_overlay(self) -> dict[str, str]:
        """Node → why it has none."""
        return {node: member.why for node, member in self.members().items() if not member.domain}

    def managers(self) -> tuple[str, ...]:
        """One manager of every swarm, where networks are made and removed."""
        first: dict[str, str] = {}
        for node, member in sorted(self.members().items()):
            if member.manager:
                first.setdefault(member.domain, node)
        return tuple(first.values())

    def manager_of(self, node: str) -> str | None:
        """The manager that makes networks for this node."""
        domain = self.members().get(node, SwarmMember()).domain
        found = (name for name in self.managers() if self.members()[name].domain == domain)
        return next(found, None) if domain else None

    def why_not(self, node: str) -> str:
        """Why this node can have no network that spans others."""
        return self.members().get(node, SwarmMember(why="does not answer")).why
