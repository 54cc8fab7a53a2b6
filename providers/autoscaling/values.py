"""What is asked of an autoscaler, and what becomes of it. Values only."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import astuple, dataclass, field
from typing import Literal

from providers.kernel_names import hostname_part

MOST_NODES = 32
"""That one request can be for."""
RequestState = Literal[
    "incomplete", "new", "accepted", "not-found", "provisioned", "expired", "revoked", "failed"
]
"""`incomplete`: its making was cut short; `new`: no autoscaler has said anything; `not-found`: one tries
again by itself; `provisioned`: nodes are there or on their way; the rest is over, and nobody tries again."""


def owner_mark(repo: str, cluster: str) -> str:
    """By which requests of other repositories and clusters are told from ours."""
    return hashlib.sha256(f"{repo}/{cluster}".encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class NodeNeed:
    """What one node is to have free. `devices`: slot → whole devices; `pages`: slot → bytes."""

    cpu_milli: int
    memory: int
    devices: tuple[tuple[str, int], ...] = ()
    pages: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class NodeRequest:
    """Nodes that would end one session's wait: one for each need, all different. Never changed: who needs
    something else makes another one, of another name."""

    repo: str
    cluster: str
    session: str
    namespace: str
    nodes: tuple[NodeNeed, ...]
    selector: tuple[tuple[str, str], ...]
    """Labels of the pool's nodes."""
    taints: tuple[str, ...] = ()
    """Keys of taints that do not keep it away."""

    @property
    def name(self) -> str:
        """The same for the same request, whoever makes it."""
        digest = hashlib.sha256(repr(astuple(self)).encode()).hexdigest()[:12]
        return f"{hostname_part(self.session)}-{digest}"

    @property
    def key(self) -> tuple[str, str]:
        return self.namespace, self.name


@dataclass(frozen=True, slots=True)
class AskedNodes:
    """A request that is there. `owner`: `owner_mark` of whose it is."""

    namespace: str
    name: str
    owner: str
    state: RequestState
    why: str = ""
    """In the autoscaler's words."""
    request_uid: str = ""
    anchor_uid: str = ""
    """Of the object that all others go with."""
    token: str = ""
    """By which its parts are called."""

    @property
    def key(self) -> tuple[str, str]:
        return self.namespace, self.name


@dataclass(frozen=True, slots=True)
class NodeAsks:
    """What is asked for now. `why_not`: why nothing can be, in words."""

    requests: Mapping[tuple[str, str], AskedNodes] = field(default_factory=dict)
    unnamed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Resource group → nodes of its pool, ready, that no document names."""
    why_not: str = ""
