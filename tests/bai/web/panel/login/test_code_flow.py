"""Logging in at an identity provider, and what a login is worth afterwards."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from bai.web.auth.access_file import parse_access
from bai.web.panel.access import kept_identity
from bai.web.panel.access.cookies import LARGEST, CookieSealer
from bai.web.panel.login.code_flow import CodeFlow
from bai.web.panel.login.public_address import check_public_url
from schemas.problems.errors.repository import InvalidRepository
from tests.bai.web.panel.login.visitors import PANEL, SAME, LoginLab, query_of

HERE = "/clusters/here/sessions"


def test_a_provider_is_offered_and_asked_for_a_code_that_only_this_browser_can_use(lab: LoginLab) -> None:
    visitor = lab.browser()
    page = visitor.get(f"/login?next={HERE}").text
    assert f'href="/login/oidc/0?next={HERE.replace("/", "%2F")}"' in page
    assert lab.provider.issuer.removeprefix("http://") in page and 'name="credential"' in page
    asked = query_of(lab.begin(visitor, HERE))
    assert asked["response_type"] == "code" and asked["code_challenge_method"] == "S256"
    assert asked["redirect_uri"] == f"{PANEL}/login/oidc/callback"
    assert asked["scope"] == "openid profile email", "what the provider knows of what is usual"
    other = query_of(lab.begin(lab.browser(), HERE))
    for name in ("state", "nonce", "code_challenge"):
        assert asked[name] != other[name]
    assert HERE not in asked["state"]


def test_who_has_logged_in_lands_on_the_page_that_was_asked_for_with_the_roles_of_the_file(
    lab: LoginLab,
) -> None:
    visitor = lab.browser()
    done = lab.log_in(visitor, "ada", f"{HERE}?q=a&page=1")
    assert done.status_code == 303 and done.headers["location"] == f"{HERE}?q=a&page=1"
    cookie = done.headers["set-cookie"]
    assert cookie.startswith("__Host-bai=") and len(cookie) < 4096
    assert "HttpOnly" in cookie and "Secure" in cookie and "SameSite=lax" in cookie
    page = visitor.get(HERE).text
    assert "ada@x" in page and "viewer of p" in page
    assert visitor.get("/clusters/here/plan").status_code == 403
    assert lab.logged_in("root").get("/clusters/here/plan").status_code == 200


def test_who_has_no_role_keeps_no_login(lab: LoginLab) -> None:
    refused = lab.log_in(lab.browser(), "eve")
    assert refused.status_code == 403 and "eve@x has no role here" in refused.text
    assert "set-cookie" not in refused.headers


def test_roles_are_those_of_now(lab: LoginLab) -> None:
    visitor = lab.logged_in("ada")
    lab.grant(grants=[{"role": "operator", "groups": ["vision"]}])
    assert ">operator<" in visitor.get(HERE).text
    lab.grant(grants=[{"role": "viewer", "groups": ["elsewhere"]}])
    assert visitor.get(HERE).status_code == 403, "a group that no grant named then counts from the next login"
    lab.grant()
    assert visitor.get(HERE).status_code == 200


@pytest.mark.parametrize(
    "change",
    [
        {"providers": False},
        {"clientId": "another-api"},
        {"user": "sub"},
        {"groups": "roles"},
        {"clientId": None},
    ],
)
def test_a_login_ends_with_what_it_was_read_by(lab: LoginLab, change: dict[str, object]) -> None:
    visitor = lab.logged_in("ada")
    lab.grant(**change)  # type: ignore[arg-type]
    assert visitor.get(HERE).headers["location"] == "/login?next=%2Fclusters%2Fhere%2Fsessions&ended=1"
    assert "__Host-bai" not in visitor.cookies


def test_a_login_ends_with_its_time(lab: LoginLab, monkeypatch: pytest.MonkeyPatch) -> None:
    visitor = lab.logged_in("ada")
    later = time.time() + 3500
    monkeypatch.setattr(kept_identity, "time", SimpleNamespace(time=lambda: later))
    assert visitor.get(HERE).status_code == 200
    lab.grant(session="30m")
    assert visitor.get(HERE).status_code == 303, "a shorter time holds for those who are there"
    lab.grant(session="12h")
    again = lab.browser()
    assert "Max-Age=43200" in lab.log_in(again, "ada").headers["set-cookie"]


def test_a_token_of_thousands_of_groups_fits_into_a_cookie_and_too_many_grants_are_said(
    lab: LoginLab,
) -> None:
    many = [f"group-{number * 7919 % 100_003:x}-of-a-large-company" for number in range(3000)]
    lab.provider.browsers.users["ada"] = {"email": "ada@x", "groups": [*many, "vision"]}
    visitor = lab.browser()
    cookie = lab.log_in(visitor, "ada").headers["set-cookie"]
    assert len(cookie) < 600 and visitor.get(HERE).status_code == 200
    lab.grant(grants=[{"role": "viewer", "groups": many}])
    refused = lab.log_in(lab.browser(), "ada")
    assert refused.status_code == 403 and "too many for a cookie" in refused.text
    lab.grant(grants=[{"role": "viewer", "groups": many[:300]}])
    large = lab.log_in(lab.browser(), "ada")
    assert large.status_code == 303 and 1000 < len(large.headers["set-cookie"]) < LARGEST + 96


def test_projects_may_come_of_a_claim(lab: LoginLab) -> None:
    lab.provider.browsers.users["ada"] = {"email": "ada@x", "bai": {"projects": ["p", "q"]}}
    lab.grant(grants=[{"role": "viewer", "projectsFrom": "bai.projects"}])
    assert "viewer of p, q" in lab.logged_in("ada").get(HERE).text


def test_who_is_nobody_in_particular_may_log_in(lab: LoginLab) -> None:
    lab.grant(anonymous="viewer")
    visitor = lab.browser()
    page = visitor.get(HERE).text
    assert ">anonymous<" in page and 'href="/login">Log in</a>' in page and 'action="/logout"' not in page
    lab.log_in(visitor, "root")
    page = visitor.get(HERE).text
    assert ">admin<" in page and 'href="/login"' not in page and 'action="/logout"' in page


def test_a_login_that_one_replica_began_ends_at_another_one(lab: LoginLab) -> None:
    visitor, key = lab.browser(), "k" * 32
    lab.app.state.code_flow = CodeFlow(CookieSealer(key))
    address = lab.allow(lab.begin(visitor), "ada")
    lab.app.state.code_flow = CodeFlow(CookieSealer())
    assert "another browser" in visitor.get(address).text
    lab.app.state.code_flow = CodeFlow(CookieSealer(key))
    assert visitor.get(address).status_code == 303


def test_several_tabs_log_in_at_once(lab: LoginLab) -> None:
    visitor = lab.browser()
    asked = [lab.begin(visitor, f"{HERE}?page={number}") for number in range(1, 9)]
    sizes = {len(each.value or "") for each in visitor.cookies.jar}
    assert len(visitor.cookies) == 1 and max(sizes) < 300
    for number, each in reversed([*enumerate(asked, 1)]):
        done = visitor.get(lab.allow(each, "ada"))
        assert done.headers["location"] == f"{HERE}?page={number}"


@pytest.mark.parametrize("methods", [None, ["client_secret_post"]])
def test_a_confidential_client_says_its_secret(
    lab: LoginLab, tmp_path: Path, methods: list[str] | None
) -> None:
    # Authlib takes what is sent by HTTP's own login as it stands.
    lab.provider.secret = "word with : and %" if methods else "a-word"
    lab.provider.metadata = {"token_endpoint_auth_methods_supported": methods} if methods else {}
    secret = tmp_path / "secret"
    secret.write_text(f"{lab.provider.secret}\n")
    lab.grant(clientSecret=f"file:{secret}", scopes=["openid", "groups"])
    visitor = lab.browser()
    assert query_of(lab.begin(visitor))["scope"] == "openid groups"
    assert lab.log_in(visitor, "ada").status_code == 303
    assert lab.get("/api/v1/login", token="")["oidc"] == [], "`bai login` has no secret to say"
    secret.write_text("another")
    refused = lab.log_in(visitor, "ada")
    assert refused.status_code == 403 and "says: " in refused.text
    secret.unlink()
    gone = lab.log_in(visitor, "ada")
    assert gone.status_code == 503 and f"file:{secret}" in gone.text


def test_a_provider_that_is_away_is_said(lab: LoginLab) -> None:
    asked = lab.allow(lab.begin(visitor := lab.browser()), "ada")
    lab.provider.browsers.answers["code"] = ""
    lab.grant(leeway="61s")  # What was known of the provider is not known any more.
    lab.provider.metadata = {"issuer": "http://127.0.0.1:1"}
    for address in ("/login/oidc/0", asked):
        answer = visitor.get(address)
        assert answer.status_code == 503 and "does not answer" in answer.text
    assert visitor.get("/login/oidc/1").status_code == 404
    assert visitor.get("/login/oidc/x").status_code == 404


def test_logging_out_ends_here_and_leads_to_the_provider(lab: LoginLab) -> None:
    visitor = lab.logged_in("ada")
    token = visitor.get(HERE).text.partition('name="token" value="')[2][:64]
    done = visitor.post("/logout", data={"token": token}, headers=SAME)
    assert done.status_code == 303 and done.headers["location"] == "/login/oidc/0/leave"
    assert "__Host-bai" not in visitor.cookies
    page = visitor.get("/login/oidc/0/leave")
    assert page.headers["refresh"] == "0; url=/login/oidc/0/logout"
    onward = visitor.get("/login/oidc/0/logout").headers["location"]
    assert onward.startswith(f"{lab.provider.issuer}/logout?")
    assert query_of(onward) == {
        "client_id": lab.provider.client_id,
        "post_logout_redirect_uri": f"{PANEL}/login",
    }
    assert visitor.get(HERE).headers["location"].startswith("/login?next=")


def test_a_provider_without_a_place_to_log_out_is_named(lab: LoginLab) -> None:
    lab.provider.metadata = {"end_session_endpoint": None}
    visitor = lab.browser()
    assert visitor.get("/login/oidc/0/logout").headers["location"] == "/login?still=0"
    assert "you may be logged in still" in visitor.get("/login?still=0").text


def test_the_public_address_is_where_the_provider_sends_browsers_back(lab: LoginLab) -> None:
    assert query_of(lab.begin(lab.browser("http://127.0.0.1:8080")))["redirect_uri"].startswith(
        "http://127.0.0.1:8080/"
    )
    proxied = lab.browser("http://panel.test", **{"X-Forwarded-Proto": "https"})
    assert query_of(lab.begin(proxied))["redirect_uri"].startswith("https://panel.test/")
    lab.app.state.code_flow.public_url = "https://public.test"
    assert query_of(lab.begin(proxied))["redirect_uri"] == "https://public.test/login/oidc/callback"


def test_what_is_no_public_address() -> None:
    assert check_public_url("https://panel.example/") == "https://panel.example"
    assert check_public_url("http://localhost:8080") == "http://localhost:8080"
    assert check_public_url("https://[2001:db8::1]:8443") == "https://[2001:db8::1]:8443"
    for wrong in (
        "panel.example", "http://panel.example", "https://", "https://a@b", "https://a/b", "https://a?b",
        "https://a#b", "https://a b", "ftp://localhost", "https://a\n", "https://a:b", "https://a,b",
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r".+"):
            check_public_url(wrong)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("clientSecret: env:X", "no client"),
        ("clientId: bai\n    clientSecret: hunter2", "no reference"),
        ("clientId: bai\n    clientSecret: file:secret", "no reference"),
        ("clientId: bai\n    scopes: [email]", "openid"),
        ("clientId: bai\n    scopes: ['openid email']", "scopes"),
        ("clientId: bai\n    session: 13h", "12 hours"),
        ("clientId: bai\n    session: 59s", "12 hours"),
    ],
)
def test_mistakes_in_the_file_are_said_and_no_secret_is(text: str, why: str) -> None:
    entry = f"issuer: https://a.example\n    audience: bai\n    {text}\n    grants: [{{role: viewer}}]\n"
    file = f"oidc:\n  - {entry}"
    with pytest.raises(InvalidRepository) as wrong:
        parse_access(file.encode(), "access.yaml")
    said = " ".join(map(str, wrong.value.problems))
    assert why in said and "hunter2" not in said
