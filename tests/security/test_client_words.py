"""What clients of `bai serve` write, or others wrote for them: tokens, bodies, messages. Whatever they hold,
it is refused in words: no answer is a 500, nothing is logged. A real process, a real provider's server."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.server
import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bai.web.auth.oidc import IssuerKeys, IssuerUnavailable
from tests.bai.conftest import new_repo, tidy
from tests.security.client_attacks import Server, everything, serving, split
from tests.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("clients")]

SECRET = "a shared secret"
KEY = rsa.generate_private_key(65537, 2048)
PUBLISHED = {**jwt.algorithms.RSAAlgorithm.to_jwk(KEY.public_key(), as_dict=True), "kid": "one", "use": "sig"}
SLOW = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
OFTEN = settings(max_examples=150, suppress_health_check=SLOW)


class Provider:
    """An identity provider: two documents, which a test may exchange. `cut`: answers end in the middle."""

    def __init__(self) -> None:
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = outer.documents.get(self.path, b"")
                self.send_response(200)
                for name, value in outer.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body) + 1000 * outer.cut))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *values: object) -> None:
                """Nothing."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self.headers: dict[str, str] = {}
        self.cut = False
        self.documents = self.right()
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def right(self) -> dict[str, bytes]:
        found = {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}
        return {
            "/.well-known/openid-configuration": json.dumps(found).encode(),
            "/keys": json.dumps({"keys": [PUBLISHED]}).encode(),
        }

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    made = Provider()
    yield made
    made.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, provider: Provider) -> Iterator[Server]:
    repo = new_repo(tmp_path_factory.mktemp("server"))
    repo.env["HOOK_SECRET"] = SECRET
    grants = "grants: [{role: operator, projectsFrom: projects}, {role: admin, groups: [admins]}]"
    access = f"oidc: [{{issuer: '{provider.url}', audience: bai, {grants}}}]\n"
    try:
        with serving(repo, "--webhook-secret", "env:HOOK_SECRET", access=access) as made:
            good = token(headers(), claims(provider))
            until(lambda: asked(made, good)[0] == 200, "it has the provider's keys")
            yield made
    finally:
        tidy(repo)


def part(content: bytes) -> bytes:
    return base64.urlsafe_b64encode(content).rstrip(b"=")


def token(header: bytes, claims: bytes) -> str:
    """Signed by the provider, whatever it holds."""
    said = part(header) + b"." + part(claims)
    return (said + b"." + part(KEY.sign(said, padding.PKCS1v15(), SHA256()))).decode()


def headers(**changes: Any) -> bytes:
    return json.dumps({"alg": "RS256", "kid": "one", "typ": "JWT", **changes}).encode()


def claims(provider: Provider, **changes: Any) -> bytes:
    now = int(time.time())
    fixed = {
        "iss": provider.url,
        "aud": "bai",
        "sub": "ada",
        "iat": now,
        "exp": now + 300,
        "groups": ["admins"],
    }
    return json.dumps({**fixed, **changes}).encode()


def asked(server: Server, token: str) -> tuple[int, str]:
    return server.ask("/api/v1/clusters", more=f"Authorization: Bearer {token}\r\n")


DEEP = b"[" * 5000
HEADS: dict[str, bytes] = {
    "a list of algorithms": headers(alg=["RS256"]),
    "an object of algorithms": headers(alg={"RS256": 1}),
    "a number": headers(alg=256),
    "no algorithm": headers(alg=None),
    "a list of keys": headers(kid=["one"]),
    "an object for a key": headers(kid={"one": 1}),
    "unknown to be understood": headers(crit=["exp"]),
    "a body elsewhere": headers(b64=False, crit=["b64"]),
    "deeply nested": b'{"alg": "RS256", "kid": "one", "x": ' + DEEP,
    "deeply nested and closed": b'{"alg": "RS256", "x": ' + DEEP[:4000] + b"]" * 4000 + b"}",
    "a list": b"[]",
    "no text": b'{"alg": "RS256", "kid": "\xff"}',
    "half a pair": b'{"alg": "RS256", "kid": "\\ud800"}',
    "no number": b'{"alg": NaN}',
    "a large number": b'{"alg": ' + b"9" * 5000 + b"}",
}


@pytest.mark.parametrize("what", HEADS)
def test_heads_of_tokens(server: Server, provider: Provider, what: str) -> None:
    before = server.said()
    status, said = asked(server, token(HEADS[what], claims(provider)))
    assert status == 401 and said.startswith('{"detail":')
    assert server.said() == before


CLAIMS: dict[str, Any] = {
    "an end beyond every number": {"exp": 10**400},
    "an end that is a list": {"exp": [1]},
    "an end that is an object": {"exp": {}},
    "an infinite end": {"exp": float("inf")},
    "an end that is no number": {"exp": float("nan")},
    "a begin beyond every number": {"nbf": 10**400},
    "an infinite begin": {"nbf": float("inf")},
    "a list of issuers": {"iss": ["x"]},
    "an object of audiences": {"aud": {"bai": 1}},
    "a list of lists of audiences": {"aud": [["bai"]]},
    "a number of audiences": {"aud": 5},
    "a list of users": {"sub": ["ada"]},
    "a user of two lines": {"sub": "ada\nroot"},
    "a user who paints": {"sub": "\x1b[2Jada"},
    "half a pair as a user": {"sub": "ada\ud800"},
    "a user without end": {"sub": "a" * 5000},
}


@pytest.mark.parametrize("what", CLAIMS)
def test_claims_of_tokens(server: Server, provider: Provider, what: str) -> None:
    before = server.said()
    status, said = asked(server, token(headers(), claims(provider, **CLAIMS[what])))
    far = what == "an end beyond every number"  # It is an end, and good until then.
    assert status == (200 if far else 401) and (far or said.startswith('{"detail":'))
    assert server.said() == before


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.just(10**400) | st.floats() | st.text(st.characters())
    | st.text(st.characters(categories=["Cs", "Cc", "L"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
HEAD_NAMES = ["alg", "kid", "typ", "crit", "b64", "jku", "x5c"]
CLAIM_NAMES = ["iss", "aud", "sub", "exp", "nbf", "iat", "jti", "groups", "projects"]


@OFTEN
@given(
    st.dictionaries(st.sampled_from(HEAD_NAMES), ODD, max_size=2),
    st.dictionaries(st.sampled_from(CLAIM_NAMES), ODD, max_size=3),
)
def test_tokens_of_all_kinds(
    server: Server, provider: Provider, head: dict[str, Any], said: dict[str, Any]
) -> None:
    before = server.said()
    status, _ = asked(server, token(headers(**head), claims(provider, **said)))
    assert status in (200, 401, 403, 431)
    assert server.said() == before


@OFTEN
@given(st.binary(max_size=300) | ODD.map(lambda value: json.dumps(value).encode()))
def test_bodies_of_all_kinds(server: Server, body: bytes) -> None:
    before = server.said()
    for order in ("approve", "rollback"):
        assert sent(server, f"/api/v1/clusters/here/{order}", body, server.bearer())[0] in (400, 404, 422)
    assert server.said() == before


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 60_000, b'{"why":' * 8000, b'{"why": ' + b"9" * 5000 + b"}", b'{"why": NaN}', b"\xff\xfe[",
        b"1", b'{"\\ud800": 1}', b'{"why": "\\ud800"}', b'{"why": {"why": "x"}}',
    ],
    ids=lambda body: repr(body[:12]),
)  # fmt: skip
def test_bodies_that_are_no_order(server: Server, body: bytes) -> None:
    before = server.said()
    status, said = sent(server, "/api/v1/clusters/here/suspend", body, server.bearer())
    assert status in (400, 422) and json.loads(said)["detail"]
    assert server.said() == before


@pytest.mark.parametrize(
    "nested",
    [b"[" * 200_000, b'{"push":' * 200_000, b"[" * 200_000 + b"]" * 200_000],
    ids=["lists", "objects", "closed"],
)
def test_signed_messages_of_all_kinds(server: Server, nested: bytes) -> None:
    """What a message holds is not read at all: that one came is what it says."""
    before = server.said()
    signature = hmac.new(SECRET.encode(), nested, hashlib.sha256).hexdigest()
    more = f"X-GitHub-Event: push\r\nX-Hub-Signature-256: sha256={signature}\r\n"
    assert sent(server, "/hooks/git", nested, more) == (202, '{"verdict":"moved"}')
    assert sent(server, "/hooks/git", nested + b" ", more)[0] == 401
    assert server.said() == before


def sent(server: Server, path: str, body: bytes, more: str) -> tuple[int, str]:
    head = f"POST {path} HTTP/1.1\r\nHost: here\r\nConnection: close\r\nContent-Type: application/json\r\n"
    with server.connect() as connection:
        connection.sendall(f"{head}{more}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        return split(everything(connection))


WRONG = {
    "nested": b"[" * 200_000,
    "no object": b"1",
    "no text": b"\xff\xff",
    "empty": b"",
    "no list of keys": b'{"keys": {"a": 1}}',
    "odd keys": json.dumps(
        {"keys": [1, {}, {"kty": ["RSA"]}, {**PUBLISHED, "n": 5}, {**PUBLISHED, "e": "*"}]}
    ).encode(),
    "no number": b'{"keys": NaN}',
}  # fmt: skip


@pytest.mark.parametrize("path", ["/.well-known/openid-configuration", "/keys"])
@pytest.mark.parametrize("what", WRONG)
def test_a_provider_that_talks_nonsense(path: str, what: str) -> None:
    provider = Provider()
    provider.documents[path] = WRONG[what]
    try:
        with pytest.raises(IssuerUnavailable):
            IssuerKeys(provider.url).candidates("one", "RS256")
    finally:
        provider.close()


@pytest.mark.parametrize("how", ["cut", "packed"])
def test_a_provider_whose_answers_break_off(how: str) -> None:
    provider = Provider()
    provider.cut = how == "cut"
    provider.headers = {"Content-Encoding": "gzip"} if how == "packed" else {}
    try:
        with pytest.raises(IssuerUnavailable):
            IssuerKeys(provider.url).candidates("one", "RS256")
    finally:
        provider.close()
