"""Logging in at an identity provider without a browser of one's own here: the device authorization grant.

The person opens an address anywhere, and types a code that is shown here (RFC 8628; OpenID Connect Discovery
1.0). What comes back is an ID token, which the server checks, and a refresh token for the next one (RFC 6749,
section 6).
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import requests
import urllib3

from bai.remote.addresses import check_address
from providers.http_requests import innermost_reason, no_netrc_login
from schemas.files.strict_json import parse_json
from schemas.problems.errors.server import LoginFailed, ProviderUnreachable
from schemas.problems.text import printable

TIMEOUT = 15.0
"""Seconds for connecting, and of silence within an answer."""
GRANT = "urn:ietf:params:oauth:grant-type:device_code"
SCOPES = ("openid", "profile", "email", "groups", "offline_access")
"""What is asked for, of what the provider says it knows."""
DEFAULT_INTERVAL, SLOW_DOWN = 5.0, 5.0
"""Seconds between two questions, and by how much more where the provider asks for it."""
LONGEST_WAIT = 1800.0
"""Seconds in which somebody must have logged in, whatever the provider says."""
_LARGEST = 1 << 20


@dataclass(frozen=True, slots=True)
class Tokens:
    """What a login gives. `refresh` is empty where the provider gives none."""

    id: str
    refresh: str = ""


@dataclass(frozen=True, slots=True)
class DeviceCode:
    """What a person has to do: open `address` and type `user_code`. Times in seconds."""

    device_code: str
    user_code: str
    address: str
    complete_address: str
    interval: float
    expires: float


class IdentityProvider:
    """One issuer, and us as its client. `ca`: a file of certificates to believe in place of the system's.
    Everything raises LoginFailed."""

    def __init__(
        self,
        issuer: str,
        client_id: str,
        *,
        ca: str | None = None,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._issuer, self._client_id = issuer, client_id
        self._verify: str | bool = ca or True
        self._sleep, self._clock = sleep, clock
        self._endpoints: Mapping[str, Any] = {}

    def log_in(self, show: Callable[[DeviceCode], None]) -> Tokens:
        """Until somebody has typed the code that `show` shows them."""
        code = self._device_code()
        show(code)
        end, interval = self._clock() + min(code.expires, LONGEST_WAIT), code.interval
        while self._clock() < end:
            self._sleep(interval)
            answer = self._ask_for_tokens(code)
            if answer is None:
                interval *= 2
                continue
            status, found = answer
            if status == 200:
                return self._tokens(found)
            error = found.get("error")
            if error == "slow_down":
                interval += SLOW_DOWN
            elif error != "authorization_pending":
                raise self._failed(_error_text(status, found))
        raise self._failed("the code was not used in time")

    def _ask_for_tokens(self, code: DeviceCode) -> tuple[int, Mapping[str, Any]] | None:
        """None where the provider does not answer: it is asked again, half as often each time (RFC 8628,
        section 3.5)."""
        form = {"grant_type": GRANT, "device_code": code.device_code, "client_id": self._client_id}
        try:
            return self._post(self._endpoint("token_endpoint"), form)
        except ProviderUnreachable:
            return None

    def renew(self, refresh: str) -> Tokens:
        """The next ID token; the refresh token may be another one from now on."""
        status, found = self._post(
            self._endpoint("token_endpoint"),
            {"grant_type": "refresh_token", "refresh_token": refresh, "client_id": self._client_id},
        )
        if status != 200:
            raise self._failed(_error_text(status, found))
        made = self._tokens(found)
        return made if made.refresh else Tokens(made.id, refresh)

    def _device_code(self) -> DeviceCode:
        endpoint = self._endpoint("device_authorization_endpoint")
        status, found = self._post(endpoint, {"client_id": self._client_id, "scope": self._scope()})
        if status != 200:
            raise self._failed(_error_text(status, found))
        texts = {name: _text(found, name) for name in ("device_code", "user_code", "verification_uri")}
        if missing := [name for name, value in texts.items() if not value]:
            raise self._failed(f"its answer has no {', '.join(missing)}")
        return DeviceCode(
            texts["device_code"], texts["user_code"], texts["verification_uri"],
            _text(found, "verification_uri_complete"),
            _seconds(found, "interval", DEFAULT_INTERVAL), _seconds(found, "expires_in", LONGEST_WAIT),
        )  # fmt: skip

    def _endpoint(self, name: str) -> str:
        if not self._endpoints:
            found = self._request("GET", f"{self._issuer.rstrip('/')}/.well-known/openid-configuration")[1]
            if found.get("issuer") != self._issuer:
                raise self._failed(f"it calls itself {found.get('issuer')!r}")
            self._endpoints = found
        value = self._endpoints.get(name)
        if not isinstance(value, str):
            raise self._failed(f"it has no {name}: the device grant may be off for this client")
        try:
            return check_address(value)
        except ValueError as error:
            raise self._failed(str(error)) from None

    def _scope(self) -> str:
        known = self._endpoints.get("scopes_supported")
        return " ".join(each for each in SCOPES if not isinstance(known, list) or each in known)

    def _tokens(self, found: Mapping[str, Any]) -> Tokens:
        made = Tokens(_text(found, "id_token"), _text(found, "refresh_token"))
        if not made.id:
            raise self._failed("it gave no ID token: the client needs the scope openid")
        return made

    def _post(self, url: str, form: Mapping[str, str]) -> tuple[int, Mapping[str, Any]]:
        return self._request("POST", url, form)

    def _request(
        self, method: str, url: str, form: Mapping[str, str] | None = None
    ) -> tuple[int, Mapping[str, Any]]:
        try:
            with requests.request(
                method, url, data=form, headers={"Accept": "application/json"}, timeout=TIMEOUT,
                verify=self._verify, allow_redirects=False, stream=True, auth=no_netrc_login,
            ) as answer:  # fmt: skip
                status, body = answer.status_code, answer.raw.read(_LARGEST, decode_content=True)
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
            why = printable(innermost_reason(error))
            raise ProviderUnreachable(issuer=self._issuer, why=why) from None
        try:
            value = parse_json(body)
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise self._failed(f"{url} answers with status {status} and no JSON object")
        return status, value

    def _failed(self, why: str) -> LoginFailed:
        return LoginFailed(issuer=self._issuer, why=why)


def expires_at(token: str) -> float:
    """When a signed token is over (seconds since the epoch), as it says itself; 0 where it does not."""
    try:
        part = token.split(".")[1]
        claims = parse_json(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
        return float(claims["exp"])
    except (IndexError, KeyError, TypeError, ValueError):
        return 0.0


def _error_text(status: int, found: Mapping[str, Any]) -> str:
    """What RFC 6749, section 5.2, has for a person."""
    text = _text(found, "error_description") or _text(found, "error") or f"HTTP status {status}"
    return printable(text[:300])


def _text(found: Mapping[str, Any], name: str) -> str:
    value = found.get(name)
    return value if isinstance(value, str) else ""


def _seconds(found: Mapping[str, Any], name: str, otherwise: float) -> float:
    value = found.get(name)
    good = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 86_400
    return float(value) if good and value is not None else otherwise
