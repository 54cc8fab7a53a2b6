"""Hosts of which each port is an app's, as Caddy is told of them.

Browsers send the cookies of a host to all its ports, and take what one says of the host as said for all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bai.web.apps.app_cookies import PREFIX_OF_PORT

Json = dict[str, Any]

ARRIVED_AT = "{http.request.local.port}"
"""The port of the connection, whatever the client says."""
PORT_HEADER = "Bai-Port"
PORT_COOKIE_RULES = (
    # No port's cookies are another's, and no script, whose pages all have one host, reads them.
    {"search_regexp": "^.+$", "replace": f"{PREFIX_OF_PORT.format(port=ARRIVED_AT)}$0; HttpOnly"},
)
OF_THE_HOST = ("Strict-Transport-Security",)
"""Headers that would hold for all ports of a host."""


@dataclass(frozen=True, slots=True)
class PortSite:
    """`listen`: Caddy's network addresses, of the ports that apps of HTTP may have; `networks`: whose clients
    may connect."""

    host: str
    scheme: str
    networks: tuple[str, ...]
    listen: tuple[str, ...]


def stranger_routes(site: PortSite, elsewhere: Json) -> Iterator[Json]:
    """Who may not connect is not answered; whoever names another host is answered `elsewhere`."""
    refused = {"not": [{"remote_ip": {"ranges": list(site.networks)}}]}
    yield {"match": [refused], "handle": [{"handler": "static_response", "abort": True}], "terminal": True}
    yield {"match": [{"not": [{"host": [site.host]}]}], "handle": [elsewhere], "terminal": True}
