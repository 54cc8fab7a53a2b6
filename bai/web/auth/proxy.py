"""A proxy in front has asked who it is, and says so in headers, which are believed from its network alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bai.web.auth.grants import Claimed, Grants
from bai.web.auth.networks import Network, within
from bai.web.auth.roles import Somebody


@dataclass(frozen=True, slots=True)
class Proxy:
    """`user` and `groups` are names of headers, in lower case; groups are divided by commas."""

    networks: Sequence[Network]
    user: str
    groups: str
    grants: Grants

    def who(self, headers: Mapping[str, str], peer: str) -> Somebody | None:
        name = headers.get(self.user, "").strip()
        if not name or not within(peer, self.networks):
            return None
        groups = (part.strip() for part in headers.get(self.groups, "").split(","))
        return self.grants.of(Claimed(name, frozenset(filter(None, groups))))
