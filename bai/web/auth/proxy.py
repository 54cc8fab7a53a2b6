"""A proxy in front has asked who it is, and says so in headers, which are believed from its network alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bai.web.auth.grants import Grants, Identity
from bai.web.auth.networks import Network, within
from bai.web.auth.roles import Principal


@dataclass(frozen=True, slots=True)
class ProxyAuthenticator:
    """`user` and `groups` are names of headers, in lower case; groups are divided by commas."""

    networks: Sequence[Network]
    user: str
    groups: str
    grants: Grants

    def authenticate(self, headers: Mapping[str, str], peer: str) -> Principal | None:
        found = self.identity(headers, peer)
        return None if found is None else self.grants.principal(found)

    def identity(self, headers: Mapping[str, str], peer: str) -> Identity | None:
        """Whom it says; None where nobody is named, or it is not the proxy that does."""
        name = headers.get(self.user, "").strip()
        if not name or not within(peer, self.networks):
            return None
        groups = (part.strip() for part in headers.get(self.groups, "").split(","))
        return Identity(name, frozenset(filter(None, groups)))
