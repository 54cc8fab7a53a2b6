"""Who somebody is by an identity provider, as a cookie has it: their tokens would be too long for one, and
are logins at the API. What they may is asked anew of the access file, with each request.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bai.web.auth.grants import Identity
from bai.web.auth.login_providers import LoginProvider, login_providers
from bai.web.auth.roles import Access, Principal
from bai.web.panel.access.cookies import LARGEST, CookieSealer, TooLong


@dataclass(frozen=True, slots=True)
class KeptIdentity:
    """`reading`: by which rules it was read of a token. `groups` and `claims`: those that grants named then.
    `since`: when they logged in, in seconds since the epoch."""

    reading: str
    user: str
    groups: Sequence[str]
    claims: Mapping[str, Sequence[str]]
    since: float


def seal_identity(sealer: CookieSealer, provider: LoginProvider, identity: Identity) -> str:
    """What grants need of it. Raises TooLong."""
    needed = provider.authenticator.grants.needed_of(identity)
    value = [provider.reading, needed.user, sorted(needed.groups), dict(needed.claims), time.time()]
    sealed = sealer.identities.seal(zlib.compress(json.dumps(value).encode(), 9))
    if len(sealed) > LARGEST:
        raise TooLong("your groups and projects are too many for a cookie: use a token")
    return sealed


def kept_identity(sealer: CookieSealer, sealed: str) -> KeptIdentity | None:
    """None for anything else that a cookie has."""
    data = sealer.identities.open(sealed)
    return KeptIdentity(*json.loads(zlib.decompress(data))) if data is not None else None


def provider_of(access: Access, kept: KeptIdentity | None) -> LoginProvider | None:
    """At which they have logged in, if it still counts."""
    known = (each for each in login_providers(access) if kept is not None and each.reading == kept.reading)
    return next(known, None)


def principal_of(access: Access, kept: KeptIdentity | None) -> Principal:
    """What they may as of now. Raises PermissionError where their login has ended."""
    provider = provider_of(access, kept)
    if kept is None or provider is None or time.time() >= kept.since + provider.client.session:
        raise PermissionError("the login has ended")
    identity = Identity(kept.user, frozenset(kept.groups), kept.claims)
    return provider.authenticator.grants.principal(identity)
