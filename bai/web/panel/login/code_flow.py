"""Logging in at an identity provider: the authorization code flow with PKCE (OpenID Connect Core 1.0, section
3.1; RFC 7636; RFC 9700), and logging out there (RP-Initiated Logout 1.0).

Nothing is kept here between the two requests: `state` carries, sealed, what the second one has to know, and
counts only together with a cookie of the browser that has begun. The nonce and the verifier follow from both.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from urllib.parse import quote_plus, urlencode

from urllib3.exceptions import HTTPError

from bai.render.humanize import clean
from bai.web.auth.grants import Identity
from bai.web.auth.login_providers import LoginProvider
from bai.web.auth.oidc import IssuerUnavailable
from bai.web.panel.access.cookies import CookieSealer
from reconciler.secrets.operator_values import resolve_reference
from schemas.problems.errors.plan import SecretMissing

CALLBACK = "/login/oidc/callback"
SCOPES = ("openid", "profile", "email", "groups")
"""What is asked for, of what the provider says it knows."""
LONGEST_NEXT = 600
"""Letters of a path that `state` carries: providers bound the length of an address."""
MOST_EXCHANGES = 4
"""Codes that are being exchanged at a time: a provider that hangs holds up no more threads."""
_LONGEST_WORDS = 300


class Busy(Exception):
    """So many exchange codes that one more would keep others waiting."""


@dataclass(frozen=True, slots=True)
class BegunLogin:
    """What `state` has to know. `browser`: what follows from the cookie of the one that has begun."""

    flow: str
    reading: str
    redirect_uri: str
    next: str
    browser: str


@dataclass(frozen=True, slots=True)
class ProviderAnswer:
    """With what a provider sends a browser back (RFC 6749, sections 4.1.2; RFC 9207)."""

    state: str = ""
    code: str = ""
    issuer: str = ""
    error: str = ""
    description: str = ""


class CodeFlow:
    """Both requests of a login. `public_url`: where browsers reach this server, if it is said."""

    def __init__(self, sealer: CookieSealer, public_url: str = "") -> None:
        self.public_url = public_url
        self._browsers, self._states = sealer.browsers, sealer.states
        self._exchanges = threading.BoundedSemaphore(MOST_EXCHANGES)

    def browser_cookie(self, held: str) -> str:
        """Of a browser that has `held`: as it is from now on. Logins in other tabs go on."""
        return self._browsers.seal(self._browsers.open(held) or secrets.token_bytes(32))

    def begin(self, provider: LoginProvider, cookie: str, address: str, next_path: str) -> str:
        """Where the browser goes. `address`: where it is to come back. Raises IssuerUnavailable."""
        keys, client = provider.authenticator.keys, provider.client
        endpoint = _required(keys.endpoint("authorization_endpoint"), "authorization_endpoint")
        known = keys.metadata().get("scopes_supported")
        usual = (each for each in SCOPES if not isinstance(known, list) or each in known)
        begun = BegunLogin(
            secrets.token_urlsafe(16), provider.reading, address + CALLBACK,
            next_path if len(next_path) <= LONGEST_NEXT else "/", self._browser(cookie),
        )  # fmt: skip
        return _with_query(
            endpoint,
            response_type="code",
            client_id=client.client_id,
            redirect_uri=begun.redirect_uri,
            scope=" ".join(client.scopes or usual),
            state=self._states.seal(json.dumps(asdict(begun)).encode()),
            nonce=self._derived("nonce", begun),
            code_challenge=code_challenge(self._derived("verifier", begun)),
            code_challenge_method="S256",
        )

    def begun(self, answer: ProviderAnswer, cookie: str) -> BegunLogin:
        """The login that an answer belongs to. Raises PermissionError for another browser's."""
        data = self._states.open(answer.state)
        begun = BegunLogin(**json.loads(data)) if data is not None else None
        if begun is None or not hmac.compare_digest(begun.browser, self._browser(cookie)):
            raise PermissionError(
                "this login was begun in another browser, at another address, or too long ago"
            )
        return begun

    def finish(self, provider: LoginProvider, begun: BegunLogin, answer: ProviderAnswer) -> Identity:
        """Who has logged in. Raises PermissionError, IssuerUnavailable and Busy."""
        keys = provider.authenticator.keys
        names_itself = keys.metadata().get("authorization_response_iss_parameter_supported") is True
        if (answer.issuer or names_itself) and answer.issuer != provider.client.issuer:
            raise PermissionError("another identity provider has answered")
        if answer.error or not answer.code:
            raise PermissionError(f"{provider.label} says: {_words(answer.description or answer.error)}")
        claims = provider.authenticator.claims(self._exchange(provider, begun, answer.code))
        self._check(claims, provider.client.client_id, begun)
        return provider.authenticator.identity(claims)

    def _check(self, claims: Mapping[str, object], client_id: str, begun: BegunLogin) -> None:
        """What is true of an ID token of this very login, beside what is of every token."""
        nonce, audience = claims.get("nonce"), claims.get("aud")
        ours = self._derived("nonce", begun)
        if not isinstance(nonce, str) or not hmac.compare_digest(nonce.encode(), ours.encode()):
            raise PermissionError("the token is of another login")
        if client_id not in (audience if isinstance(audience, list) else [audience]):
            raise PermissionError("the token is for another client")
        if claims.get("azp", client_id) != client_id:
            raise PermissionError("the token was given to another client")

    def _exchange(self, provider: LoginProvider, begun: BegunLogin, code: str) -> str:
        """The ID token for a code."""
        keys, client = provider.authenticator.keys, provider.client
        endpoint = _required(keys.endpoint("token_endpoint"), "token_endpoint")
        form = {
            "grant_type": "authorization_code", "code": code, "redirect_uri": begun.redirect_uri,
            "code_verifier": self._derived("verifier", begun), "client_id": client.client_id,
        }  # fmt: skip
        headers = {}
        if client.secret:
            secret = _secret(client.secret)
            if _takes_basic(keys.metadata()):
                headers["Authorization"] = _basic(client.client_id, secret)
            else:
                form["client_secret"] = secret
        if not self._exchanges.acquire(blocking=False):
            raise Busy
        try:
            status, found = keys.ask("POST", endpoint, form, headers)
        except (OSError, HTTPError, ValueError) as error:
            raise IssuerUnavailable(f"{provider.label} does not answer") from error
        finally:
            self._exchanges.release()
        token = found.get("id_token")
        if status != 200 or not isinstance(token, str):
            why = found.get("error_description") or found.get("error") or f"status {status}, and no ID token"
            raise PermissionError(f"{provider.label} says: {_words(str(why))}")
        return token

    def _browser(self, cookie: str) -> str:
        """What is known of the browser with this cookie; of none without one."""
        secret = self._browsers.open(cookie) or secrets.token_bytes(32)
        return self._browsers.derive(secret.hex())

    def _derived(self, what: str, begun: BegunLogin) -> str:
        return self._states.derive(what, begun.flow, begun.browser)


def logout_address(provider: LoginProvider, address: str) -> str:
    """Where a browser ends its login at the provider; empty where that has no such place. It has no ID token
    with it, which is a login at the API: the provider asks before it does so. Raises IssuerUnavailable."""
    endpoint = provider.authenticator.keys.endpoint("end_session_endpoint")
    client_id = provider.client.client_id
    back = f"{address}/login"
    return endpoint and _with_query(endpoint, client_id=client_id, post_logout_redirect_uri=back)


def code_challenge(verifier: str) -> str:
    """S256 (RFC 7636, section 4.2)."""
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def _with_query(endpoint: str, **query: str) -> str:
    return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}"


def _required(endpoint: str, name: str) -> str:
    if not endpoint:
        raise IssuerUnavailable(f"the identity provider has no {name}")
    return endpoint


def _takes_basic(metadata: Mapping[str, object]) -> bool:
    """As all do by default (Discovery 1.0, section 3)."""
    known = metadata.get("token_endpoint_auth_methods_supported")
    return not isinstance(known, list) or "client_secret_basic" in known


def _basic(client_id: str, secret: str) -> str:
    """RFC 6749, section 2.3.1: both are encoded as in a form."""
    both = f"{quote_plus(client_id)}:{quote_plus(secret)}"
    return f"Basic {base64.b64encode(both.encode()).decode()}"


def _secret(reference: str) -> str:
    try:
        return resolve_reference(reference).strip()
    except SecretMissing as error:
        raise IssuerUnavailable(f"the secret of bai's client cannot be read: {error.message}") from error


def _words(text: str) -> str:
    """What a provider says, for people."""
    return clean(text[:_LONGEST_WORDS]) or "no"
