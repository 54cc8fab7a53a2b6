"""Who asks: tokens, an identity provider's, a proxy's headers; and the file that says so."""

from __future__ import annotations

import importlib
import itertools
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import jwt
import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric import rsa

from bai.web.auth import oidc as oidc_module
from bai.web.auth.access_file import WatchedAccessFile, parse_access
from bai.web.auth.grants import Grant, Grants, Identity
from bai.web.auth.oidc import (
    CACHE_LIFETIME,
    CACHE_SIZE,
    FETCH_INTERVAL,
    KEYS_LIFETIME,
    IssuerKeys,
    OidcAuthenticator,
    TokenCache,
    TokenRules,
)
from bai.web.auth.roles import (
    AnonymousAuthenticator,
    Authenticator,
    Principal,
    Role,
    RoleBinding,
    StaticAccess,
    authenticate,
)
from bai.web.auth.static_tokens import hash_of, new_token
from schemas.problems.errors.repository import CannotRead, InvalidRepository
from tests.bai.web.lab import PATIENCE, bearer, wait_for

VISION = frozenset({"vision"})
HASH = "a" * 64


def asks(doors: list[Authenticator], headers: dict[str, str], peer: str = "192.0.2.9") -> Principal:
    return authenticate(StaticAccess(doors), {name.lower(): value for name, value in headers.items()}, peer)


# --- an identity provider ---------------------------------------------------------------------------------


class Provider:
    """A real provider of OpenID Connect; `login` goes the way of a browser."""

    def __init__(self, address: str) -> None:
        self.address = address

    def login(self, user: str, *, audience: str = "bai") -> str:
        """The ID token of somebody who logs in."""
        back = "http://localhost/back"
        query = {
            "client_id": audience, "redirect_uri": back, "response_type": "code",
            "scope": "openid email profile",
        }  # fmt: skip
        answer = httpx.post(
            f"{self.address}/oauth2/authorize", params=query, data={"sub": user}, timeout=60, verify=False
        )
        code = parse_qs(urlsplit(answer.headers["location"]).query)["code"][0]
        form = {
            "grant_type": "authorization_code", "code": code, "redirect_uri": back, "client_id": audience,
            "client_secret": "any",
        }  # fmt: skip
        token: str = httpx.post(f"{self.address}/oauth2/token", data=form, timeout=60, verify=False).json()[
            "id_token"
        ]
        return token

    def oidc(self, **changes: Any) -> OidcAuthenticator:
        """The way in for its tokens, as a file would make it."""
        part = {
            "issuer": self.address, "audience": "bai", "user": "email",
            "grants": [
                {"role": "admin", "groups": ["gpu-admins"]},
                {"role": "viewer", "groups": ["vision"], "projects": ["vision"]},
                {"role": "operator", "users": ["leads@x.example"], "projectsFrom": "team.projects"},
            ],
        } | changes  # fmt: skip
        (_, door, _) = [
            None,
            *parse_access(yaml.safe_dump({"oidc": [part]}).encode(), "access.yaml").authenticators()[1:],
        ]
        assert isinstance(door, OidcAuthenticator)
        return door


with warnings.catch_warnings():
    importlib.import_module("authlib.deprecate")  # Has its warnings shown whatever was said before.
    warnings.simplefilter("ignore")  # What it is built from says that it will change.
    import oidc_provider_mock


def users() -> list[oidc_provider_mock.User]:
    make = oidc_provider_mock.User
    return [
        make(sub="ada", claims={"email": "ada@x.example", "groups": ["gpu-admins", "vision"]}),
        make(sub="ben", claims={"email": "ben@x.example", "groups": ["vision"]}),
        make(sub="leads", claims={"email": "leads@x.example", "team": {"projects": ["speech"]}}),
        make(sub="new", claims={"email": "new@x.example"}),
        make(sub="nameless", claims={}),
    ]


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with (
        pytest.MonkeyPatch.context() as patch,
        oidc_provider_mock.run_server_in_thread(user_claims=users()) as server,
    ):
        patch.setattr(oidc_module, "FETCH_TIMEOUT", PATIENCE)
        yield Provider(f"http://localhost:{server.server_port}")


def test_a_login_gives_what_its_groups_are_granted(provider: Provider) -> None:
    door = provider.oidc()
    found = {user: asks([door], bearer(provider.login(user))) for user in ("ada", "ben", "leads", "new")}
    assert found["ada"] == Principal(
        "ada@x.example", (RoleBinding(Role.admin), RoleBinding(Role.viewer, VISION))
    ) and found["ada"].may(Role.admin)
    assert (found["ben"].projects, found["ben"].may(Role.viewer)) == (VISION, False)
    assert found["leads"].bindings == (RoleBinding(Role.operator, frozenset({"speech"})),)
    assert found["new"].bindings == ()


def test_tokens_that_are_for_somebody_else(provider: Provider) -> None:
    token = provider.login("ada", audience="another-service")
    with pytest.raises(PermissionError, match=r"[Aa]udience"):
        asks([provider.oidc()], bearer(token))
    assert asks([provider.oidc(audience=["bai", "another-service"])], bearer(token)).may(Role.admin)


def test_a_token_without_the_name_that_is_asked_for(provider: Provider) -> None:
    with pytest.raises(PermissionError, match="no email"):
        asks([provider.oidc()], bearer(provider.login("nameless")))


def test_another_issuer_is_not_ours_to_judge(provider: Provider) -> None:
    door = provider.oidc(issuer="http://localhost:1")
    with pytest.raises(PermissionError, match="say who you are"):
        asks([door], bearer(provider.login("ada")))


def test_a_token_that_was_changed(provider: Provider) -> None:
    header, _, signature = provider.login("ben").split(".")
    payload = provider.login("ada").split(".")[1]
    with pytest.raises(PermissionError, match="no key of the provider"):
        asks([provider.oidc()], bearer(f"{header}.{payload}.{signature}"))


@pytest.fixture(scope="module")
def private() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


class StillKeys(IssuerKeys):
    """Keys as a provider would list them, and how often it was asked."""

    def __init__(self, keys: list[dict[str, Any]]) -> None:
        self.now, self.keys, self.asked, self.up = 0.0, keys, 0, True
        self.keys_at = "https://login.example/keys"
        super().__init__("https://login.example", clock=lambda: self.now)

    def _get(self, url: str) -> dict[str, Any]:
        self.asked += url.endswith("openid-configuration")
        if not self.up:
            raise ValueError("down")
        if url.endswith("openid-configuration"):
            return {"issuer": "https://login.example", "jwks_uri": self.keys_at}
        return {"keys": self.keys}


def published(key: rsa.RSAPrivateKey, kid: str) -> dict[str, Any]:
    found = jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)
    return {**found, "kid": kid, "use": "sig"}


def still(keys: IssuerKeys, **changes: Any) -> OidcAuthenticator:
    fixed: dict[str, Any] = {
        "issuer": "https://login.example", "audience": ["bai"], "algorithms": frozenset({"RS256"}),
        "leeway": 60.0, "user": "sub", "groups": "groups",
    }  # fmt: skip
    never = itertools.count(
        step=CACHE_LIFETIME
    )  # Nothing is remembered from one look at the clock to the next.
    return OidcAuthenticator(
        TokenRules(**fixed | changes), keys, Grants([Grant(Role.viewer)]), clock=lambda: float(next(never))
    )


def signed(key: Any, kid: str | None = "one", alg: str = "RS256", **changes: Any) -> dict[str, str]:
    now = int(time.time())
    claims = {"iss": "https://login.example", "aud": "bai", "sub": "ada", "iat": now, "exp": now + 300}
    merged = {name: value for name, value in {**claims, **changes}.items() if value is not None}
    return bearer(jwt.encode(merged, key, algorithm=alg, headers={"kid": kid} if kid else {}))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"exp": 1}, "expired"),
        ({"exp": None}, "exp"),
        ({"sub": None}, "sub"),
        ({"aud": None}, "aud"),
        ({"aud": "other"}, "udience"),
        ({"nbf": 99999999999}, "not yet valid"),
    ],
)
def test_claims_that_do_not_hold(private: rsa.RSAPrivateKey, changes: dict[str, Any], why: str) -> None:
    door = still(StillKeys([published(private, "one")]))
    assert asks([door], signed(private)).name == "ada"
    with pytest.raises(PermissionError, match=why):
        asks([door], signed(private, **changes))


def test_what_was_checked_is_known_for_a_moment(private: rsa.RSAPrivateKey) -> None:
    keys, now, issued = StillKeys([published(private, "one")]), [0.0], int(time.time())
    fixed = TokenRules("https://login.example", ["bai"], frozenset({"RS256"}), 60.0, "sub", "groups")
    door = OidcAuthenticator(fixed, keys, Grants([Grant(Role.viewer)]), clock=lambda: now[0])
    headers = signed(private)
    now[0] = float(issued)
    assert asks([door], headers).name == "ada"
    door.keys = StillKeys([])  # Nothing that is checked from now on is good.
    now[0] += CACHE_LIFETIME - 1
    assert asks([door], headers).name == "ada"
    header, claims, _ = headers["Authorization"].split(".")
    with pytest.raises(PermissionError):
        asks([door], {"Authorization": f"{header}.{claims}.AAAA"})
    now[0] += 1
    with pytest.raises(PermissionError):
        asks([door], headers)


def test_what_is_over_is_not_known_any_more() -> None:
    now = [time.time()]
    known = TokenCache(lambda: now[0])
    whom = Principal("ada", ())
    known.put("token", whom, now[0] + 3)
    assert known.get("token") is whom and known.get("other") is None
    now[0] += 3
    assert known.get("token") is None
    for number in range(CACHE_SIZE + 1):
        known.put(f"{number}", whom, now[0] + 100)
    assert known.get("0") is None and known.get(f"{CACHE_SIZE}") is whom


def test_leeway_for_clocks_that_differ(private: rsa.RSAPrivateKey) -> None:
    keys = StillKeys([published(private, "one")])
    late = int(time.time()) - 30
    assert asks([still(keys)], signed(private, exp=late)).name == "ada"
    with pytest.raises(PermissionError, match="expired"):
        asks([still(keys, leeway=0.0)], signed(private, exp=late))


def test_algorithms_that_anybody_could_sign_with(private: rsa.RSAPrivateKey) -> None:
    """The public key as the secret of an HMAC, and no signature at all."""
    keys = StillKeys([published(private, "one")])
    for headers in (signed("0" * 64, alg="HS256"), signed("", alg="none"), signed(private, alg="RS512")):
        with pytest.raises(PermissionError, match="algorithm"):
            asks([still(keys)], headers)


def test_keys_are_changed_by_the_provider(private: rsa.RSAPrivateKey) -> None:
    keys = StillKeys([published(private, "one")])
    door, new = still(keys), rsa.generate_private_key(65537, 2048)
    assert asks([door], signed(private)).name == "ada"
    assert asks([door], signed(private)).name == "ada" and keys.asked == 1
    keys.keys = [published(new, "two")]
    with pytest.raises(PermissionError, match="no key"):
        asks([door], signed(new, "two"))  # Asked a moment ago.
    keys.now += FETCH_INTERVAL
    assert asks([door], signed(new, "two")).name == "ada" and keys.asked == 2
    with pytest.raises(PermissionError, match="no key"):
        asks([door], signed(private))


def test_made_up_keys_do_not_make_us_ask(private: rsa.RSAPrivateKey) -> None:
    keys = StillKeys([published(private, "one")])
    for number in range(20):
        with pytest.raises(PermissionError):
            asks([still(keys)], signed(private, f"made-up-{number}"))
    assert keys.asked == 1


def test_a_provider_that_is_gone_for_a_while(private: rsa.RSAPrivateKey) -> None:
    keys = StillKeys([published(private, "one")])
    door = still(keys)
    keys.up = False
    with pytest.raises(PermissionError, match="does not answer"):
        asks([door], signed(private))
    keys.up, keys.now = True, FETCH_INTERVAL
    assert asks([door], signed(private)).name == "ada"
    keys.up, keys.now = False, FETCH_INTERVAL + KEYS_LIFETIME
    assert asks([door], signed(private)).name == "ada" and keys.asked == 3
    assert asks([door], signed(private, None)).name == "ada"  # Without the key's name, too.


def test_made_up_keys_do_not_make_us_ask_a_provider_that_is_gone(private: rsa.RSAPrivateKey) -> None:
    keys = StillKeys([published(private, "one")])
    assert asks([still(keys)], signed(private)).name == "ada"
    keys.up = False
    for second in range(100):
        keys.now = FETCH_INTERVAL + second / 2
        with pytest.raises(PermissionError, match="no key"):
            asks([still(keys)], signed(private, f"made-up-{second}"))
    assert keys.asked == 1 + 50 / FETCH_INTERVAL


class HangingKeys(StillKeys):
    """Once `hangs` is set, an answer comes when `over` is."""

    def __init__(self, keys: list[dict[str, Any]]) -> None:
        self.hangs, self.over = threading.Event(), threading.Event()
        super().__init__(keys)

    def _get(self, url: str) -> dict[str, Any]:
        if self.hangs.is_set():
            assert self.over.wait(60)
        return super()._get(url)


def test_a_provider_that_hangs_holds_up_one_alone(private: rsa.RSAPrivateKey) -> None:
    keys = HangingKeys([published(private, "one")])
    assert asks([still(keys)], signed(private)).name == "ada"
    keys.hangs.set()
    keys.now = KEYS_LIFETIME
    asking = threading.Thread(target=keys.candidates, args=("made-up", "RS256"))
    asking.start()
    wait_for(keys._asking.locked, "the provider is asked")
    assert asks([still(keys)], signed(private)).name == "ada"
    with pytest.raises(PermissionError, match="no key"):
        asks([still(keys)], signed(private, "another"))
    assert asking.is_alive()
    keys.over.set()
    asking.join(60)


@pytest.mark.parametrize("at", ["http://login.example/keys", "file:///keys", "", "http://["])
def test_keys_come_over_tls_alone(private: rsa.RSAPrivateKey, at: str) -> None:
    keys = StillKeys([published(private, "one")])
    keys.keys_at = at
    for _ in range(2):
        with pytest.raises(PermissionError, match="does not answer"):
            asks([still(keys)], signed(private))


def test_a_provider_that_calls_itself_otherwise(provider: Provider) -> None:
    keys = IssuerKeys(provider.address.replace("localhost", "127.0.0.1") + "/")
    with pytest.raises(Exception, match="does not answer"):
        keys.candidates("x", "RS256")


# --- a proxy ----------------------------------------------------------------------------------------------

PROXY = """
proxy:
  networks: [10.1.0.0/16, "::1"]
  grants:
    - {role: operator, groups: [ops]}
    - {role: viewer, projects: [vision]}
"""


def proxied(peer: str, **headers: str) -> Principal:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return asks(list(parse_access(PROXY.encode(), "a").authenticators()), named, peer)


@pytest.mark.parametrize("peer", ["10.1.2.3", "::1", "::ffff:10.1.2.3"])
def test_a_proxy_is_believed(peer: str) -> None:
    ada = proxied(peer, X_Forwarded_User="ada", X_Forwarded_Groups="dev, ops")
    assert (ada.name, ada.may(Role.operator)) == ("ada", True)
    ben = proxied(peer, X_Forwarded_User="ben")
    assert (ben.projects, ben.may(Role.viewer)) == (VISION, False)


@pytest.mark.parametrize("peer", ["10.2.0.1", "192.0.2.1", "::2", "", "testclient", "::ffff:10.2.0.1"])
def test_from_elsewhere_its_headers_mean_nothing(peer: str) -> None:
    with pytest.raises(PermissionError, match="say who you are"):
        proxied(peer, X_Forwarded_User="ada", X_Forwarded_Groups="ops")


def test_a_proxy_that_says_nobody() -> None:
    with pytest.raises(PermissionError):
        proxied("10.1.2.3", X_Forwarded_User=" ")


# --- grants, tokens, anybody ------------------------------------------------------------------------------


def test_grants_add_up() -> None:
    grants = Grants(
        [
            Grant(Role.viewer, projects=frozenset({"a"})),
            Grant(Role.operator, groups=frozenset({"g"}), projects=frozenset({"b"})),
            Grant(Role.admin, users=frozenset({"root"})),
        ]
    )
    assert grants.principal(Identity("x")).projects == {"a"}
    assert grants.principal(Identity("x", frozenset({"g"}))).projects == {"a", "b"}
    assert grants.principal(Identity("root")).projects is None


def test_tokens_are_told_apart_by_their_hashes() -> None:
    token, digest = new_token()
    assert digest == hash_of(token) and token not in digest and new_token()[0] != token
    text = f"tokens: [{{name: ci, sha256: {digest}, role: operator, projects: [vision]}}]"
    doors = list(parse_access(text.encode(), "a").authenticators())
    assert asks(doors, bearer(token)) == Principal("ci", (RoleBinding(Role.operator, VISION),))
    for wrong in (digest, token + "x", "bai_"):
        with pytest.raises(PermissionError, match="no such token"):
            asks(doors, bearer(wrong))


def test_anonymous_is_who_says_nothing_not_who_says_something_wrong() -> None:
    doors: list[Authenticator] = [AnonymousAuthenticator(Role.viewer)]
    assert asks(doors, {}).name == "anonymous"
    with pytest.raises(PermissionError):
        asks(doors, bearer("a.b.c"))


# --- the file ---------------------------------------------------------------------------------------------

WRONG = [
    ("tokens: [{name: a, sha256: abc}]", 1, "tokens[0].sha256"),
    (f"tokens:\n  - name: a\n    sha256: {HASH}\n    rol: admin", 4, "tokens[0].rol"),
    (f"tokens:\n  - {{name: a, sha256: {HASH}, role: root}}", 2, "tokens[0].role"),
    (f"tokens:\n  - {{name: a, sha256: {HASH}, projects: vision}}", 2, "tokens[0].projects"),
    (
        "oidc:\n  - issuer: http://login.example\n    audience: a\n    grants: [{role: viewer}]",
        2,
        "oidc[0].issuer",
    ),
    ("oidc:\n  - issuer: https://x.example\n    grants: [{role: viewer}]", 2, "oidc[0]"),
    (
        "oidc:\n  - issuer: https://x.example\n    audience: a\n    algorithms: [HS256]\n"
        "    grants: [{role: viewer}]",
        4,
        "oidc[0].algorithms[0]",
    ),
    ("oidc:\n  - {issuer: https://x.example, audience: a, grants: []}", 2, "oidc[0].grants"),
    (
        "oidc:\n  - issuer: https://x.example\n    audience: a\n    grants:\n"
        "      - {role: viewer, projects: [a], projectsFrom: b}",
        5,
        "oidc[0].grants[0].projectsFrom",
    ),
    ("proxy:\n  networks: [10.0.0.1/8]\n  grants: [{role: viewer}]", 2, "proxy.networks[0]"),
    ("proxy:\n  networks: []\n  grants: [{role: viewer}]", 2, "proxy.networks"),
    ('proxy:\n  networks: ["::1"]\n  user: Authorization\n  grants: [{role: viewer}]', 3, "proxy.user"),
    ("anonymous: anybody", 1, "anonymous"),
    ("metrics: open", 1, "metrics"),
    ("tokens: []\ntokens: []", 2, "tokens"),
    ("- tokens", 1, ""),
    ("tokens: [", 2, "tokens"),
]


@pytest.mark.parametrize(("text", "line", "path"), WRONG)
def test_what_is_wrong_is_said_with_its_place(text: str, line: int, path: str) -> None:
    with pytest.raises(InvalidRepository) as caught:
        parse_access(text.encode(), "access.yaml")
    problem = caught.value.problems[0]
    assert (problem.place.file, problem.place.line) == ("access.yaml", line), problem
    assert problem.path.startswith(path) and problem.message


def test_an_empty_file_lets_nobody_in() -> None:
    with pytest.raises(PermissionError):
        asks(list(parse_access(b"", "a").authenticators()), {})


def test_the_file_is_followed_and_what_is_wrong_changes_nothing(tmp_path: Path) -> None:
    path, said = tmp_path / "access.yaml", list[str]()

    def write(text: str) -> None:
        new = tmp_path / "new"
        new.write_text(text)
        new.rename(path)

    with pytest.raises(CannotRead):
        WatchedAccessFile(path, said.append)
    write("anonymous: viewer")
    access = WatchedAccessFile(path, said.append)
    assert authenticate(access, {}, "").name == "anonymous" and not access.open_metrics
    write("anonymous: nobody")
    assert authenticate(access, {}, "").name == "anonymous" and authenticate(access, {}, "")
    assert len(said) == 1 and "access.yaml:1:12" in said[0]
    path.unlink()
    assert authenticate(access, {}, "").name == "anonymous" and len(said) == 2
    write("metrics: everybody")
    with pytest.raises(PermissionError):
        authenticate(access, {}, "")
    assert access.open_metrics and len(said) == 3
