"""Tokens that an identity provider has signed (OpenID Connect Core 1.0, Discovery 1.0; RFC 7519, RFC 8725).

The provider is asked for its keys when one is needed that is not known, and once an hour; while it does not
answer, the keys that are known stay good. Why PyJWT's own client does not ask: docs/adr/0024.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import jwt
import requests
from urllib3.exceptions import HTTPError

from bai.web.auth.bearer import bearer, is_signed
from bai.web.auth.grants import Grants, Identity, find_claim, string_set
from bai.web.auth.roles import Principal
from providers.http_requests import no_netrc_login
from reconciler.gitops.rate_limit import TokenBucket
from schemas.files.regular_files import check_regular_file
from schemas.files.strict_json import parse_json

KEYS_LIFETIME = 3600.0
"""Seconds for which keys are not asked for again."""
FETCH_INTERVAL = 10.0
"""Seconds between two questions, whatever comes: tokens with made-up keys must not make us ask."""
CACHE_LIFETIME = 10.0
"""Seconds for which a token that was found to be good is not checked again, unless it is over before."""
CACHE_SIZE = 1024
"""Tokens that are remembered."""
FETCH_TIMEOUT = 5.0
"""Seconds for connecting to the provider, and of silence within its answer."""
ALGORITHMS = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
)
"""Only those where who checks cannot also sign."""
LATEST = 1 << 53
"""Seconds since the epoch: no later end is told from another."""
LONGEST_NAME = 200
"""Letters of a user's name."""
_LARGEST_DOCUMENT = 1 << 20


class IssuerUnavailable(Exception):
    """The provider does not say what it must."""


class IssuerKeys:
    """The public keys of one issuer. `ca`: file of certificates to believe instead of the system's."""

    def __init__(self, issuer: str, *, ca: str = "", clock: Callable[[], float] = time.monotonic) -> None:
        self._issuer = issuer
        self._verify: str | bool = ca or True
        self._clock = clock
        self._asking = threading.Lock()
        self._fetches = TokenBucket(1 / FETCH_INTERVAL, 1)
        self._keys: tuple[jwt.PyJWK, ...] = ()
        self._metadata: Mapping[str, Any] = {}
        self._loaded = -KEYS_LIFETIME

    def candidates(self, kid: str | None, algorithm: str) -> list[jwt.PyJWK]:
        """Keys that may have made a signature. Raises IssuerUnavailable when none can be had.

        While one thread asks the provider, the others go on with the keys that are known: a provider that
        hangs holds up one of those that answer requests, whatever tokens come."""
        self._keep_fresh(missing=not self._known(kid, algorithm))
        return self._known(kid, algorithm)

    def metadata(self) -> Mapping[str, Any]:
        """What the provider says of itself in its discovery document. Raises IssuerUnavailable."""
        self._keep_fresh(missing=not self._keys)
        return self._metadata

    def endpoint(self, name: str) -> str:
        """An address of the provider's; empty where it has none. Raises IssuerUnavailable."""
        found = self.metadata().get(name)
        return self._secure(found) if isinstance(found, str) else ""

    def _keep_fresh(self, *, missing: bool) -> None:
        due = missing or self._clock() - self._loaded >= KEYS_LIFETIME
        if due and self._asking.acquire(blocking=not self._keys):
            try:
                self._refresh()
            finally:
                self._asking.release()

    def _known(self, kid: str | None, algorithm: str) -> list[jwt.PyJWK]:
        named = [key for key in self._keys if kid is None or key.key_id in (kid, None)]
        return [key for key in named if _fits_algorithm(key, algorithm)]

    def _refresh(self) -> None:
        why: Exception | None = None
        if self._fetches.take(self._clock()):
            try:
                self._metadata, self._keys = self._fetch()
                self._loaded = self._clock()
            except (OSError, HTTPError, ValueError, IssuerUnavailable) as error:
                why = error
        if not self._keys:
            raise IssuerUnavailable(f"the identity provider {self._issuer} does not answer") from why

    def _fetch(self) -> tuple[Mapping[str, Any], tuple[jwt.PyJWK, ...]]:
        found = self._get(self._issuer.rstrip("/") + "/.well-known/openid-configuration")
        if found.get("issuer") != self._issuer:
            raise IssuerUnavailable(f"it calls itself {found.get('issuer')!r}")
        listed = self._get(self._secure(str(found.get("jwks_uri", "")))).get("keys")
        keys = (
            [_parse_key(each) for each in listed if isinstance(each, dict)]
            if isinstance(listed, list)
            else []
        )
        if not any(keys):
            raise IssuerUnavailable("it has no keys")
        return found, tuple(key for key in keys if key is not None)

    def _secure(self, url: str) -> str:
        if urlsplit(url).scheme not in ("https", urlsplit(self._issuer).scheme):
            raise IssuerUnavailable(f"{url!r} is without TLS")
        return url

    def _get(self, url: str) -> dict[str, Any]:
        status, value = self.ask("GET", url)
        if status != HTTPStatus.OK:
            raise IssuerUnavailable(f"{url} answers with status {status}")
        return value

    def ask(
        self,
        method: str,
        url: str,
        form: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, dict[str, Any]]:
        """A status and an object. Raises IssuerUnavailable, OSError, HTTPError and ValueError."""
        if isinstance(self._verify, str):
            check_regular_file(self._verify)
        with requests.request(
            method, url, data=form, headers={"Accept": "application/json", **(headers or {})},
            timeout=FETCH_TIMEOUT, verify=self._verify, allow_redirects=False, stream=True,
            auth=no_netrc_login,
        ) as answer:  # fmt: skip
            status, body = answer.status_code, answer.raw.read(_LARGEST_DOCUMENT, decode_content=True)
        value = parse_json(body)
        if not isinstance(value, dict):
            raise IssuerUnavailable(f"{url} is no object")
        return status, value


def _parse_key(value: Mapping[str, Any]) -> jwt.PyJWK | None:
    """None for a key that is not for signatures, or of a kind that is not known."""
    if value.get("use", "sig") != "sig":
        return None
    try:
        return jwt.PyJWK.from_dict(dict(value))
    except (jwt.PyJWTError, ValueError, TypeError, AttributeError, KeyError):
        return None  # What it misses, or has of another type, the library notices in many ways.


def _fits_algorithm(key: jwt.PyJWK, algorithm: str) -> bool:
    kinds = {"R": "RSA", "P": "RSA", "E": "EC"}
    kind = "OKP" if algorithm == "EdDSA" else kinds[algorithm[0]]
    return key.key_type == kind and (kind != "EC" or key.algorithm_name == algorithm)


@dataclass(frozen=True, slots=True)
class TokenRules:
    """How a provider's tokens are read. `leeway` in seconds; `user` and `groups` are names of claims."""

    issuer: str
    audience: Sequence[str]
    algorithms: frozenset[str]
    leeway: float
    user: str
    groups: str


class TokenCache:
    """Whom tokens that were checked a moment ago belong to, by their hashes. Thread-safe."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._known: OrderedDict[bytes, tuple[float, Principal]] = OrderedDict()

    def get(self, token: str) -> Principal | None:
        with self._lock:
            until, found = self._known.get(_token_hash(token), (0.0, None))
            return found if self._clock() < until else None

    def put(self, token: str, principal: Principal, expires: float) -> None:
        """`expires`: when the token is over."""
        with self._lock:
            self._known[_token_hash(token)] = (min(expires, self._clock() + CACHE_LIFETIME), principal)
            if len(self._known) > CACHE_SIZE:
                self._known.popitem(last=False)


def _token_hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


class OidcAuthenticator:
    """Bearer tokens of one issuer. `clock`: seconds since the epoch, by which what was checked is known."""

    def __init__(
        self, rules: TokenRules, keys: IssuerKeys, grants: Grants, *, clock: Callable[[], float] = time.time
    ) -> None:
        self.rules, self.keys, self.grants = rules, keys, grants
        self._cache = TokenCache(clock)

    def authenticate(self, headers: Mapping[str, str], peer: str) -> Principal | None:
        token = bearer(headers)
        if not is_signed(token):
            return None
        if (known := self._cache.get(token)) is not None:
            return known
        if not self.issued(token):
            return None
        claims = self.claims(token)
        found = self.grants.principal(self.identity(claims))
        self._cache.put(token, found, min(int(claims["exp"]), LATEST) + self.rules.leeway)
        return found

    def remembered(self, token: str) -> Principal | None:
        """Whose token it is, where that was found out a moment ago: asks nobody."""
        return self._cache.get(token)

    def issued(self, token: str) -> bool:
        """Whether a token says that this issuer has made it, true or not."""
        return _claimed_issuer(token) == self.rules.issuer

    def claims(self, token: str) -> Mapping[str, Any]:
        """What a token says, which this issuer has signed for us, and which is not over. Raises
        PermissionError."""
        try:
            return self._claims(token)
        except (jwt.PyJWTError, RecursionError) as error:
            raise PermissionError(f"the token is not accepted: {error}") from None
        except IssuerUnavailable as error:
            raise PermissionError(str(error)) from None

    def identity(self, claims: Mapping[str, Any]) -> Identity:
        """Whom a token is about. Raises PermissionError."""
        name = find_claim(claims, self.rules.user)
        if not isinstance(name, str) or not name:
            raise PermissionError(f"the token does not say who: it has no {self.rules.user}")
        if len(name) > LONGEST_NAME or not name.isprintable():
            raise PermissionError(f"the token does not say who: its {self.rules.user} is no plain text")
        return Identity(name, string_set(find_claim(claims, self.rules.groups)), claims)

    def _claims(self, token: str) -> dict[str, Any]:
        header = jwt.get_unverified_header(token)
        algorithm, kid = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or algorithm not in self.rules.algorithms:
            raise jwt.InvalidAlgorithmError("its algorithm is not one of those that are allowed")
        if not isinstance(kid, str | None):
            raise jwt.InvalidTokenError("the name of its key is no text")
        wrong: jwt.PyJWTError = jwt.InvalidSignatureError("no key of the provider has signed it")
        for key in self.keys.candidates(kid, algorithm):
            try:
                return self._checked(token, key, algorithm)
            except jwt.InvalidSignatureError:
                continue
        raise wrong

    def _checked(self, token: str, key: jwt.PyJWK, algorithm: str) -> dict[str, Any]:
        found: dict[str, Any] = jwt.decode(
            token, key.key, algorithms=[algorithm], audience=list(self.rules.audience),
            issuer=self.rules.issuer, leeway=self.rules.leeway,
            options={"require": ["exp", "iss", "aud", "sub"]},
        )  # fmt: skip
        return found


def _claimed_issuer(token: str) -> object:
    """Who says to have signed it: which provider is to judge."""
    try:
        return jwt.decode(token, options={"verify_signature": False}).get("iss")
    except (jwt.PyJWTError, RecursionError):
        return None
