"""Answers to `WWW-Authenticate`: basic authentication, and tokens of an authorization service."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from threading import Lock
from urllib.request import parse_http_list, parse_keqv_list

from providers.registry_client.transport import LARGEST, RegistryResponse, Transport
from schemas.problems.errors.registry import RegistryError, RegistryRefused

_SCHEME = re.compile(r"\s*(Bearer|Basic)\s+", re.IGNORECASE)


def challenges(header: str) -> dict[str, dict[str, str]]:
    """Scheme (lower case) → its parameters. `Bearer realm="…",service="…",scope="a:b:c,d"`."""
    parts = _SCHEME.split(header)
    found: dict[str, dict[str, str]] = {}
    for scheme, rest in zip(parts[1::2], parts[2::2], strict=True):
        pairs = [item for item in parse_http_list(rest) if "=" in item]
        found[scheme.lower()] = {key.lower(): value for key, value in parse_keqv_list(pairs).items()}
    return found


class RegistryAuthenticator:
    """GET with whatever authorization the registry asks for; tokens are kept by scope."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self._tokens: dict[str, str] = {}
        self._basic = False
        self._lock = Lock()

    def get(
        self, target: str, *, scope: str = "", headers: Mapping[str, str] | None = None, most: int = LARGEST
    ) -> RegistryResponse:
        """The answer once authorized, of any status but 401 and 403. `scope`: what a token must allow, such
        as `repository:team/x:pull`. Raises RegistryRefused and what Transport raises."""
        answer = self.transport.get(target, headers={**(headers or {}), **self._header(scope)}, most=most)
        if answer.status == 401:
            self._authorize(answer, scope)
            answer = self.transport.get(target, headers={**(headers or {}), **self._header(scope)}, most=most)
        if answer.status in (401, 403):
            raise self._refusal(answer)
        return answer

    def _header(self, scope: str) -> dict[str, str]:
        with self._lock:
            if token := self._tokens.get(scope):
                return {"Authorization": f"Bearer {token}"}
            return {"Authorization": self._basic_value()} if self._basic else {}

    def _basic_value(self) -> str:
        access = self.transport.access
        pair = f"{access.username}:{access.password}".encode()
        return f"Basic {base64.b64encode(pair).decode()}"

    def _authorize(self, answer: RegistryResponse, scope: str) -> None:
        asked = challenges(answer.headers.get("WWW-Authenticate", ""))
        if "bearer" in asked:
            token = self._token(asked["bearer"], scope)
            with self._lock:
                self._tokens[scope] = token
        elif "basic" in asked and self.transport.access.username:
            with self._lock:
                if self._basic:
                    raise self._refusal(answer)
                self._basic = True
        else:
            raise self._refusal(answer)

    def _token(self, asked: Mapping[str, str], scope: str) -> str:
        access = self.transport.access
        query = {"service": asked.get("service", ""), "scope": scope or asked.get("scope", "")}
        login = None
        if access.username:
            query["account"] = access.username
            login = (access.username, access.password)
        realm = asked.get("realm", "")
        if not realm.startswith(("https://", "http://")):
            raise RegistryError(registry=access.address, why="it asks for a token and does not say where")
        answer = self.transport.get(realm, query={k: v for k, v in query.items() if v}, basic=login)
        if answer.status in (400, 401, 403):
            raise self._refusal(answer)
        try:
            given = answer.json()
            token = given.get("token") or given.get("access_token")
        except (ValueError, AttributeError):
            token = None
        if answer.status != 200 or not isinstance(token, str) or not token.isascii():
            raise RegistryError(
                registry=access.address, why=f"{realm} gave no token (status {answer.status})"
            )
        return token

    def _refusal(self, answer: RegistryResponse) -> RegistryRefused:
        access = self.transport.access
        told = error_message(answer)
        if access.username:
            why, hint = f"{access.username} may not" + (f": {told}" if told else ""), "is the password right?"
        else:
            why = "nobody is logged in" + (f": {told}" if told else "")
            hint = "has its Registry document credentials? An unknown image is refused like this too"
        return RegistryRefused(registry=access.address, why=why, hint=hint)


def error_message(answer: RegistryResponse) -> str:
    """What an answer says is wrong, in its own words: `errors` of the distribution API and of Harbor."""
    try:
        errors = answer.json()["errors"]
        first = errors[0]
        return str(first.get("message") or first.get("code") or "")[:300]
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        return ""
