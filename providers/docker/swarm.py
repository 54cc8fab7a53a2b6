"""Which engines form a Docker Swarm, and can therefore have networks that span them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Info = Mapping[str, Any]
"""What `GET /info` of an engine says."""


@dataclass(frozen=True, slots=True)
class Member:
    """One engine. `domain`: the swarm's id, empty where no manager of it is among the engines; then `why`."""

    domain: str = ""
    manager: bool = False
    why: str = ""


def members(infos: Mapping[str, Info]) -> dict[str, Member]:
    """Node → its part in a swarm. Pure.

    Only managers know their swarm's id, and only they make networks; a worker knows its managers.
    """
    swarms = {node: info.get("Swarm") or {} for node, info in infos.items()}
    ids = {
        str(swarm.get("NodeID")): str((swarm.get("Cluster") or {}).get("ID") or "")
        for swarm in swarms.values()
        if swarm.get("ControlAvailable") and (swarm.get("Cluster") or {}).get("ID")
    }
    return {node: _member(swarm, ids) for node, swarm in swarms.items()}


def _member(swarm: Mapping[str, Any], ids: Mapping[str, str]) -> Member:
    state = str(swarm.get("LocalNodeState") or "inactive")
    if state != "active":
        error = str(swarm.get("Error") or "").strip()
        return Member(
            why=f"its swarm is {state}" + (f": {error}" if error else "") if state != "inactive" else NONE
        )
    own = str(swarm.get("NodeID"))
    known = [own, *(str(each.get("NodeID")) for each in swarm.get("RemoteManagers") or ())]
    domain = next((ids[node] for node in known if node in ids), "")
    if domain:
        return Member(domain, manager=own in ids)
    return Member(why="no manager of its swarm is a node of this cluster, so that no network can be made")


NONE = "is in no swarm (docker swarm init, docker swarm join)"


class Swarms:
    """What the engines say about swarms, as last looked at. `ask` gives the info of every engine that
    answers."""

    def __init__(self, ask: Callable[[], Mapping[str, Info]]) -> None:
        self._ask = ask
        self._lock = threading.Lock()
        self._members: dict[str, Member] | None = None

    def members(self) -> Mapping[str, Member]:
        with self._lock:
            if self._members is None:
                self._members = members(self._ask())
            return self._members

    def look(self) -> None:
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
        domain = self.members().get(node, Member()).domain
        found = (name for name in self.managers() if self.members()[name].domain == domain)
        return next(found, None) if domain else None

    def why_not(self, node: str) -> str:
        """Why this node can have no network that spans others."""
        return self.members().get(node, Member(why="does not answer")).why
