"""Networks that a connection may come from."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def within(address: str, networks: Sequence[Network]) -> bool:
    """Whether an address, IPv4 also as IPv6 writes it, is of one of these networks."""
    if not networks:
        return False
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(found, "ipv4_mapped", None)
    return any((mapped or found) in each for each in networks)
