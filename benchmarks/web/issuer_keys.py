"""Keys of an identity provider: ours, PyJWT's client, and a subclass that overrides its `fetch_data`."""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from unittest import mock

import jwt
import requests
from cryptography.hazmat.primitives.asymmetric import rsa

from bai.web.auth.oidc import FETCH_INTERVAL, FETCH_TIMEOUT, KEYS_LIFETIME, IssuerKeys, IssuerUnavailable
from benchmarks.web.turns import cpu_us

HOSTILE = 100
ENDLESS = 32 << 20
LARGEST = 1 << 20
HANG = 1.0
LOOKUPS = 2000
PRIVATE = rsa.generate_private_key(65537, 2048)
PUBLIC = {**jwt.algorithms.RSAAlgorithm.to_jwk(PRIVATE.public_key(), as_dict=True), "use": "sig"}
ODD = {"kty": "RSA", "kid": "odd", "alg": ["RS256"], "n": "AQAB", "e": "AQAB"}

Lookup = Callable[[str | None], Any]
"""A key by its name; refuses by an exception."""


class Provider:
    """`state`: up, down (503), hangs (for a second), endless (spaces before its keys)."""

    def __init__(self, *keys: dict[str, Any]) -> None:
        self.keys = keys or ({**PUBLIC, "kid": "one"},)
        self.state, self.asked, self.sent = "up", 0, 0
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked += 1
                with contextlib.suppress(OSError):
                    outer.answer(self)

            def log_message(self, format: str, *values: object) -> None:
                """Nothing."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def answer(self, to: http.server.BaseHTTPRequestHandler) -> None:
        if self.state == "hangs":
            time.sleep(HANG)
        to.send_response(503 if self.state == "down" else 200)
        to.end_headers()
        if self.state == "endless" and to.path == "/keys":
            for _ in range(ENDLESS >> 16):
                self.sent += to.wfile.write(b" " * (1 << 16))
        said = {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}
        to.wfile.write(json.dumps({"keys": self.keys} if to.path == "/keys" else said).encode())

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class DiscoveringClient(jwt.PyJWKClient):
    """What overriding the one method that reads gives: discovery, and a bound on what is read."""

    def fetch_data(self) -> Any:
        found = self._read(self.uri + "/.well-known/openid-configuration")
        if found["issuer"] != self.uri:
            raise jwt.PyJWKClientError("it calls itself otherwise")
        return self._read(found["jwks_uri"])

    def _read(self, url: str) -> Any:
        with requests.get(url, timeout=self.timeout, allow_redirects=False, stream=True) as answer:
            answer.raise_for_status()
            return json.loads(answer.raw.read(LARGEST, decode_content=True))


def _ours(url: str) -> Lookup:
    keys = IssuerKeys(url, clock=lambda: time.monotonic())  # noqa: PLW0108  the clock is set ahead later

    def look_up(kid: str | None) -> Any:
        if not (found := keys.candidates(kid, "RS256")):
            raise IssuerUnavailable
        return found[0]

    return look_up


def _client(url: str, cls: Callable[..., jwt.PyJWKClient], path: str) -> Lookup:
    options = {"lifespan": KEYS_LIFETIME, "timeout": FETCH_TIMEOUT, "cooldown_duration": FETCH_INTERVAL}
    client = cls(url + path, **options)
    return client.get_signing_key  # type: ignore[return-value]  # kid=None is what is tried


MADE: dict[str, Callable[[str], Lookup]] = {
    "bai": _ours,
    "PyJWKClient": lambda url: _client(url, jwt.PyJWKClient, "/keys"),
    "its fetch_data overridden": lambda url: _client(url, DiscoveringClient, ""),
}


@contextlib.contextmanager
def later(seconds: float) -> Iterator[None]:
    """The monotonic clock is so much ahead."""
    real = time.monotonic
    with mock.patch("time.monotonic", lambda: real() + seconds):
        yield


def _works(look_up: Lookup, kid: str | None = "one") -> bool:
    try:
        return look_up(kid) is not None
    except Exception:
        return False


def _requests_of_hostile(provider: Provider, look_up: Lookup) -> int:
    before = provider.asked
    for number in range(HOSTILE):
        _works(look_up, f"made-up-{number}")
    return provider.asked - before


def _wait_behind_another(provider: Provider, look_up: Lookup) -> float:
    """Seconds that a token with a known key takes while another one's key is being asked for."""
    provider.state = "hangs"
    asking = threading.Thread(target=_works, args=(look_up, "made-up"))
    asking.start()
    time.sleep(HANG / 5)
    began = time.perf_counter()
    _works(look_up)
    waited = time.perf_counter() - began
    asking.join()
    return round(waited, 2)


def _promises(make: Callable[[str], Lookup]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    provider = Provider()
    look_up = make(provider.url)
    assert _works(look_up)
    found[f"requests for {HOSTILE} made-up keys"] = _requests_of_hostile(provider, look_up)
    with later(FETCH_INTERVAL + 1):
        found["seconds behind a provider that hangs"] = _wait_behind_another(provider, look_up)
    provider.state = "down"
    with later(3 * FETCH_INTERVAL):
        found[f"requests for {HOSTILE} made-up keys, provider down"] = _requests_of_hostile(provider, look_up)
    with later(2 * KEYS_LIFETIME):
        found["known keys after an hour, provider down"] = _works(look_up)
    provider.close()
    endless = Provider()
    endless.state = "endless"
    _works(make(endless.url))
    found["MiB taken of an answer of 32 MiB"] = round(endless.sent / 2**20)
    endless.close()
    for name, keys, kid in (
        ("good keys beside an odd one", (ODD, {**PUBLIC, "kid": "one"}), "one"),
        ("tokens that name no key", ({**PUBLIC, "kid": "one"},), None),
        ("keys without a name", (PUBLIC,), "one"),
    ):
        asked = Provider(*keys)
        found[name] = _works(make(asked.url), kid)
        asked.close()
    return found


def _look_up_often(look_up: Lookup) -> None:
    for _ in range(LOOKUPS):
        look_up("one")


def issuer_keys() -> dict[str, Any]:
    """Promises of each, and microseconds of finding a known key."""
    promises = {name: _promises(make) for name, make in MADE.items()}
    provider = Provider()
    lookups = {name: make(provider.url) for name, make in MADE.items()}
    costs = cpu_us({name: partial(_look_up_often, look_up) for name, look_up in lookups.items()}, LOOKUPS)
    provider.close()
    return {"promises": promises, "us of CPU for a known key": costs}
