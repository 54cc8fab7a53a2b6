"""What others can do with a login at an identity provider: another browser, another site, another provider,
whoever has a link or an old address."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, urlencode

import jwt
import pytest
from starlette.requests import Request

from bai.web.panel.access.cookies import CookieSealer, read_cookie
from tests.bai.web.panel.login.visitors import PANEL, SAME, USERS, LoginLab, query_of
from tests.bai.web.panel.markup import check_policy, parsed
from tests.bai.web.panel.rendering import HOSTILE

HERE = "/clusters/here/sessions"
ELSEWHERE = "this login was begun in another browser"


@pytest.fixture(scope="module")
def shared_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginLab]:
    made = LoginLab(tmp_path_factory.mktemp("login"))
    yield made
    made.close()


@pytest.fixture
def lab(shared_lab: LoginLab) -> LoginLab:
    """Its provider knows nothing of what others did before."""
    browsers = shared_lab.provider.browsers
    browsers.users.clear()
    browsers.users.update(USERS)
    browsers.errors.clear()
    shared_lab.provider.changes = {}
    return shared_lab


def changed(address: str, **query: str) -> str:
    """The same address with other parameters; empty ones are left out."""
    where, _, old = address.partition("?")
    return f"{where}?{urlencode({k: v for k, v in {**dict(parse_qsl(old)), **query}.items() if v})}"


def test_nobody_is_logged_in_as_somebody_else(lab: LoginLab) -> None:
    """Login CSRF: the attacker's own answer, opened in the browser of somebody else."""
    attacker, victim = lab.browser(), lab.browser()
    theirs = lab.allow(lab.begin(attacker), "root")
    for visitor in (victim, lab.browser(), lab.logged_in("ada")):
        refused = visitor.get(theirs)
        assert refused.status_code == 403 and ELSEWHERE in refused.text
        assert "set-cookie" not in refused.headers
    own = lab.allow(lab.begin(victim), "ada")
    mixed = victim.get(changed(own, state=query_of(theirs)["state"]))
    assert mixed.status_code == 403 and ELSEWHERE in mixed.text
    assert attacker.get(theirs).status_code == 303


def test_a_code_of_another_login_is_refused(lab: LoginLab) -> None:
    """Code injection: the code was given for another verifier and another nonce."""
    victim, attacker = lab.browser(), lab.browser()
    own, theirs = lab.allow(lab.begin(victim), "ada"), lab.allow(lab.begin(attacker), "root")
    refused = victim.get(changed(own, code=query_of(theirs)["code"]))
    assert refused.status_code == 403 and "set-cookie" not in refused.headers
    again = lab.allow(lab.begin(victim), "ada")
    other_tab = lab.allow(lab.begin(victim), "root")
    assert victim.get(changed(again, code=query_of(other_tab)["code"])).status_code == 403


def test_a_code_is_good_once(lab: LoginLab) -> None:
    visitor = lab.browser()
    address = lab.allow(lab.begin(visitor), "ada")
    assert visitor.get(address).status_code == 303
    replayed = visitor.get(address)
    assert replayed.status_code == 403 and "set-cookie" not in replayed.headers
    assert visitor.get(HERE).status_code == 200, "the login that was made stays"


@pytest.mark.parametrize(
    "claims",
    [
        {"nonce": "of-another-login"},
        {"nonce": None},
        {"nonce": ["a"]},
        {"aud": "somebody-else"},
        {"aud": "another-api"},
        {"aud": ["another-api", "third"]},
        {"aud": ["bai-cli", "another-api"], "azp": "another-api"},
        {"azp": "another-api"},
        {"iss": "https://evil.test"},
        {"exp": 1},
        {"email": None},
        {"email": "two\nlines"},
        {"email": "a" * 201},
    ],
)
def test_a_token_that_is_not_of_this_login_is_refused(lab: LoginLab, claims: dict[str, Any]) -> None:
    lab.provider.changes = claims
    refused = lab.log_in(lab.browser(), "root")
    assert refused.status_code == 403 and "set-cookie" not in refused.headers
    assert 'role="alert"' in refused.text


def test_a_token_that_somebody_else_has_signed_is_refused(
    lab: LoginLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = jwt.encode
    for forged in (
        lambda claims, key, **rest: real(claims, "", algorithm="none"),
        lambda claims, key, **rest: real(claims, "a" * 32, algorithm="HS256", headers={"kid": "lab"}),
        lambda claims, key, **rest: real(claims, key, **rest)[:-8] + "AAAAAAAA",
    ):
        with monkeypatch.context() as patch:
            patch.setattr(jwt, "encode", forged)
            refused = lab.log_in(lab.browser(), "root")
        assert refused.status_code == 403 and "the token is not accepted" in refused.text


@pytest.mark.parametrize("issuer", ["https://evil.test", ""])
def test_another_provider_does_not_answer_in_its_place(lab: LoginLab, issuer: str) -> None:
    """Mix-up: RFC 9207. Its code is not sent anywhere."""
    visitor = lab.browser()
    address = changed(lab.allow(lab.begin(visitor), "ada"), iss=issuer)
    lab.provider.requests.clear()
    refused = visitor.get(address)
    assert refused.status_code == 403 and "another identity provider" in refused.text
    assert lab.provider.requests == []


@pytest.mark.parametrize("error", [{"error": "access_denied"}, {"error": HOSTILE}, {}])
def test_what_a_provider_says_is_text_and_said_to_whoever_asked_alone(
    lab: LoginLab, error: dict[str, str]
) -> None:
    lab.provider.browsers.errors["mallory"] = {**error, "error_description": HOSTILE * 20}
    visitor = lab.browser()
    address = lab.allow(lab.begin(visitor, HERE), "mallory")
    page = visitor.get(address)
    assert page.status_code == 403 and "&lt;img src=x" in page.text and "<img" not in page.text
    assert "\x1b" not in page.text and "\u202e" not in page.text and len(page.text) < 10_000
    assert f'name="next" value="{HERE}"' in page.text
    check_policy(parsed(page.text))
    for stranger in (lab.browser(), lab.logged_in("ada")):
        assert "onerror" not in stranger.get(address).text


def test_what_a_provider_says_of_somebody_is_text(lab: LoginLab) -> None:
    hostile = '"><img src=x onerror=alert(1)>{{ 7777 * 7777 }}'
    lab.provider.browsers.users["x"] = {"email": hostile, "groups": ["vision", hostile]}
    page = lab.logged_in("x").get(HERE).text
    assert "&lt;img src=x" in page and "<img" not in page and "60481729" not in page
    check_policy(parsed(page))


@pytest.mark.parametrize(
    "elsewhere",
    [
        "//evil.test",
        "https://evil.test",
        "/\\evil.test",
        "/\t/evil.test",
        "/a\r\nSet-Cookie: bai=x",
        "javascript:1",
    ],
)
def test_a_login_at_a_provider_leads_nowhere_else(lab: LoginLab, elsewhere: str) -> None:
    visitor = lab.browser()
    assert lab.log_in(visitor, "ada", elsewhere).headers["location"] == "/"
    page = visitor.get("/login", params={"next": elsewhere}).text
    assert 'href="/login/oidc/0"' in page and "evil" not in page


def test_a_path_that_is_long_is_left_out(lab: LoginLab) -> None:
    visitor = lab.browser()
    assert len(lab.begin(visitor, "/" + "a" * 599)) < 2048
    assert lab.log_in(visitor, "ada", "/" + "a" * 600).headers["location"] == "/"


def test_a_begun_login_ends_with_its_time_and_its_key(lab: LoginLab, monkeypatch: pytest.MonkeyPatch) -> None:
    visitor = lab.browser()
    address, sealer = lab.allow(lab.begin(visitor), "ada"), lab.app.state.panel.sealer
    for box in (sealer.states, sealer.browsers):
        with monkeypatch.context() as patch:
            patch.setattr(box, "_lifetime", -1)
            assert ELSEWHERE in visitor.get(address).text
    for state in ("", "x", "\u00e4", CookieSealer().states.seal(b"{}"), sealer.browsers.seal(b"{}")):
        assert ELSEWHERE in visitor.get(changed(address, state=state)).text
    assert visitor.get(address).status_code == 303


def test_what_was_sealed_for_one_purpose_is_nothing_to_another(lab: LoginLab) -> None:
    """Behind a proxy that names everybody any text counts as a token: none of them becomes an identity."""
    sealer = lab.app.state.panel.sealer
    identity = lab.logged_in("root").cookies["__Host-bai"]
    inside = sealer.identities.open(identity)
    assert inside is not None and sealer.open(identity) == ""
    for sealed in (
        sealer._fernet.encrypt(inside).decode(),
        sealer.states.seal(inside),
        sealer.browsers.seal(inside),
        CookieSealer().identities.seal(inside),
    ):
        visitor = lab.browser()
        visitor.cookies.set("__Host-bai", sealed, domain="panel.test")
        assert visitor.get(HERE).headers["location"].startswith("/login?next="), sealed
    answer = lab.browser().post("/login", data={"credential": inside.decode("latin-1")}, headers=SAME)
    assert answer.status_code == 403
    assert lab.status("/api/v1/whoami", identity) == 401, "the API does not know what is in a cookie"


def test_a_login_is_a_new_cookie(lab: LoginLab) -> None:
    """Session fixation: what a browser had before is worth nothing afterwards."""
    visitor, planted = lab.browser(), lab.logged_in("ada").cookies["__Host-bai"]
    visitor.cookies.set("__Host-bai", planted, domain="panel.test", path="/")
    done = lab.log_in(visitor, "root")
    assert planted not in done.headers["set-cookie"]
    fresh = lab.browser()
    fresh.cookies.set("__Host-bai", planted, domain="panel.test", path="/")
    assert "ada@x" in fresh.get(HERE).text and "root@x" not in fresh.get(HERE).text
    assert lab.logged_in("root").cookies["__Host-bai"] != lab.logged_in("root").cookies["__Host-bai"]


@pytest.mark.parametrize(
    ("cookies", "found"),
    [
        (b"__Host-bai=mine", "mine"),
        (b'a=b; __Host-bai="mine"; c=d', "mine"),
        (b"bai=theirs", ""),
        (b"\xa0__Host-bai=theirs", ""),
        (b"\x85__Host-bai=theirs; a=b", ""),
        (b"\xe2\x80\x80__Host-bai=theirs", ""),
        (b"__Host-bai=mine; __Host-bai=theirs", ""),
        (b"__Host-bai=mine; __Host-bai=mine", "mine"),
        (b"__host-bai=theirs", ""),
        (b"$Version=1; __Host-bai=mine", "mine"),
        (b'a="; __Host-bai=mine; b="', "mine"),
        (b"=__Host-bai=theirs", ""),
        (b"__Host-bai", ""),
    ],
)
def test_no_other_host_can_set_the_cookie(cookies: bytes, found: str) -> None:
    """Cookie tossing: by HTTPS the name has a prefix that browsers let no other host set, also not with a
    blank before it that servers strip."""
    headers = [(b"cookie", cookies), (b"x-forwarded-proto", b"https")]
    scope = {"type": "http", "scheme": "http", "path": "/", "headers": headers}
    assert read_cookie(Request(scope)) == found


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Forwarded-Host": "evil.test"},
        {"Forwarded": "host=evil.test"},
        {"X-Original-URL": "//evil.test"},
        {"X-Forwarded-Prefix": "//evil.test"},
        {"X-Forwarded-Port": "1"},
    ],
)
def test_no_header_leads_elsewhere(lab: LoginLab, headers: dict[str, str]) -> None:
    """Cache poisoning: nothing of these headers is in an answer, and no answer is kept by others."""
    visitor, before = lab.browser(**headers), lab.logged_in("ada")
    for address in ("/", "/login", "/login/oidc/0", "/clusters/here", "/none", "/assets/none"):
        answer = visitor.get(address)
        assert "evil" not in answer.text + str(answer.headers)
        assert answer.headers["cache-control"] in ("no-store", "private, no-cache")
    assert query_of(lab.begin(visitor))["redirect_uri"] == f"{PANEL}/login/oidc/callback"
    assert "evil" not in before.get(HERE, headers=headers).text


@pytest.mark.parametrize("host", ["evil test", "a@evil.test", "evil.test/x", "evil.test?", "", "[::1", "a,b"])
def test_a_host_that_is_none_begins_no_login(lab: LoginLab, host: str) -> None:
    answer = lab.browser().get("/login/oidc/0", headers={"Host": host})
    assert answer.status_code == 400 and "location" not in answer.headers
    plain = lab.browser("http://panel.test").get("/login/oidc/0")
    assert plain.status_code == 400 and "by https" in plain.text, "a code does not travel without TLS"


def test_a_provider_that_hangs_holds_up_no_more_than_a_few(lab: LoginLab) -> None:
    flow, visitor = lab.app.state.code_flow, lab.browser()
    taken = 0
    while flow._exchanges.acquire(blocking=False):
        taken += 1
    assert taken == 4
    refused = lab.log_in(visitor, "ada")
    assert refused.status_code == 503 and "try again" in refused.text
    flow._exchanges.release(taken)
    assert lab.log_in(visitor, "ada").status_code == 303
