"""A proxy in front has asked who it is, and says so in headers, which are believed from its network alone."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bai.web.access import Somebody
from bai.web.grants import Claimed, Grants

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True)
class Proxy:
    """`user` and `groups` are names of headers, in lower case; groups are divided by commas."""

    networks: Sequence[Network]
    user: str
    groups: str
    grants: Grants

    def who(self, headers: Mapping[str, str], peer: str) -> Somebody | None:
        name = headers.get(self.user, "").strip()
        if not name or not self._trusts(peer):
            return None
        groups = (part.strip() for part in headers.get(self.groups, "").split(","))
        return self.grants.of(Claimed(name, frozenset(filter(None, groups))))

    def _trusts(self, peer: str) -> bool:
        try:
            address = ipaddress.ip_address(peer.partition("%")[0])
        except ValueError:
            return False
        mapped = getattr(address, "ipv4_mapped", None)
        return any((mapped or address) in network for network in self.networks)
