"""The identity providers at which browsers log in."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from bai.web.auth.oidc import OidcAuthenticator
from bai.web.auth.roles import Access, OidcClient


@dataclass(frozen=True, slots=True)
class LoginProvider:
    """One of them. `number`: its place in the access file, among those that have a client."""

    number: int
    client: OidcClient
    authenticator: OidcAuthenticator

    @property
    def label(self) -> str:
        """Its address, as people know it."""
        return self.client.issuer.partition("://")[2].rstrip("/")

    @property
    def reading(self) -> str:
        """Changes with how it is told who somebody is: what was read otherwise does not count any more."""
        rules = self.authenticator.rules
        words = (rules.issuer, self.client.client_id, rules.user, rules.groups)
        return hashlib.sha256("\n".join(words).encode()).hexdigest()[:16]


def login_providers(access: Access) -> tuple[LoginProvider, ...]:
    """In the order of the access file, as it is now."""
    clients, judges = access.oidc_clients, dict[str, OidcAuthenticator]()
    for each in access.authenticators:
        if isinstance(each, OidcAuthenticator):
            judges.setdefault(each.rules.issuer, each)
    return tuple(
        LoginProvider(number, client, judges[client.issuer])
        for number, client in enumerate(clients)
        if client.issuer in judges
    )
