"""Apps by URL, attacked: by strangers, by people of other projects, by other apps of the same site, by who
runs an app, and by whoever may send requests."""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Iterator
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import pytest
from cryptography.fernet import Fernet
from fastapi.routing import APIRoute

from bai.web.apps.app_cookies import AppCookies, AppLogin
from bai.web.apps.codes_and_links import CODE_LIFETIME, AppLinks, LoginCodes
from bai.web.apps.gate import create_gate
from bai.web.panel.access.cookies import CookieSealer, SealedBox
from tests.bai.web.apps.lab import (
    ANOTHER_PROJECT,
    HOST,
    NAVIGATION,
    OTHER,
    PAGES,
    PANEL,
    UNKNOWN,
    AppLab,
    Told,
    code_uri,
    cookie_names,
    token,
)
from tests.bai.web.lab import bearer

EVIL = "https://evil.test"
SIBLING = f"https://{ANOTHER_PROJECT}"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppLab]:
    made = AppLab(tmp_path_factory.mktemp("attacked"))
    assert made.once(), made.lines
    made.once()
    yield made
    made.close()


def nobody(told: Told) -> bool:
    return told.status == 401 and "bai-upstream" not in told.headers


def with_cookie(lab: AppLab, value: str, host: str = HOST, name: str = "__Host-bai-app") -> Told:
    return lab.ask(host=host, headers={"Cookie": f"{name}={value}"})


# --- strangers --------------------------------------------------------------------------------------------


def test_a_stranger_hears_of_no_app_whether_it_is_there(lab: AppLab) -> None:
    """Neither by status nor by page, header or redirect, at any path, by any method."""
    for uri in ("/", "/x", "/.bai/open?code=x", "/.bai/link?token=x", "/.bai/leave", "/.bai/x"):
        for method in ("GET", "POST", "HEAD"):
            for said in ({}, PAGES, {**PAGES, **NAVIGATION}, {"Origin": EVIL}, bearer("bai_wrong")):
                for path in ("/check", "/unanswered"):
                    there, not_there = (
                        lab.ask(uri, host, method=method, headers=said, path=path) for host in (HOST, UNKNOWN)
                    )
                    assert there.status == not_there.status
                    assert there.body == not_there.body
                    assert set(there.headers) == set(not_there.headers)
                    location = there.headers.get("location", "").partition("&")[0]
                    assert (
                        location.replace(HOST, UNKNOWN)
                        == not_there.headers.get("location", "").partition("&")[0]
                    )


def test_who_is_of_another_project_hears_no_more_than_of_what_is_not_there(lab: AppLab) -> None:
    answers = [lab.ask(host=host, headers=bearer(token("eve"))) for host in (HOST, UNKNOWN)]
    assert answers[0].status == 404 and answers[0].body == answers[1].body
    who = lab.browser()
    who.log_in("eve")
    pages = [who.to_panel(who.ask(host=host)) for host in (HOST, UNKNOWN)]
    assert {each.status_code for each in pages} == {404}
    assert pages[0].text == pages[1].text and "refresh" not in pages[0].headers


def test_an_owner_by_name_who_is_nobody_here_opens_nothing(lab: AppLab) -> None:
    """Documents name people; a name in them is no login."""
    assert nobody(lab.ask(host=OTHER, headers={"X-Forwarded-User": "ada", "Remote-User": "ada"}))
    assert nobody(lab.ask(host=OTHER, headers={"Authorization": "Basic YWRhOg=="}))
    assert nobody(lab.ask(host="jupyter--own--p.apps.example", headers=bearer("jo")))


# --- cookies ----------------------------------------------------------------------------------------------


def test_a_forged_cookie_is_nobodys(lab: AppLab) -> None:
    own = lab.in_app("ada").jar[HOST]["__Host-bai-app"]
    forged = [
        own[:-4] + ("AAAA" if own[-4:] != "AAAA" else "BBBB"), own[:40], own + own,
        "x", "\xff\xfe", "0" * 3000,
        Fernet(Fernet.generate_key()).encrypt(b"admin").decode(),
        AppCookies(CookieSealer("another key" * 4)).seal(HOST, AppLogin("token", (token("admin"),), 1e12)),
    ]  # fmt: skip
    for value in forged:
        assert nobody(with_cookie(lab, value)), value
    assert with_cookie(lab, own).status == 200


def test_a_cookie_of_another_app_is_nobodys(lab: AppLab) -> None:
    own = lab.in_app("ada").jar[HOST]["__Host-bai-app"]
    assert nobody(with_cookie(lab, own, OTHER))
    assert nobody(with_cookie(lab, own, "jupyter--shared--p.apps.example"))
    assert nobody(with_cookie(lab, own, HOST, "bai-app")), "by HTTPS its name begins with __Host-"


def test_what_was_sealed_for_something_else_is_no_cookie_of_an_app(lab: AppLab) -> None:
    who = lab.in_app("ada")
    panels = who.panel.cookies["__Host-bai"]
    codes, links = LoginCodes(lab.sealer), AppLinks(lab.sealer)
    login = AppLogin("token", (token("ada"),), time.time() + 60)
    others = [
        panels, who.jar[HOST]["__Host-bai-app-login"], codes.issue(HOST, "b" * 43, login, "/"),
        links.make(HOST, "k", "ada", time.time() + 60), lab.sealer.states.seal(b"{}"),
    ]  # fmt: skip
    for value in others:
        assert nobody(with_cookie(lab, value))
    app = who.jar[HOST]["__Host-bai-app"]
    for name in ("__Host-bai", "bai"):
        lab.client.cookies.clear()
        answer = lab.client.get(
            "/", headers={"Cookie": f"{name}={app}", "X-Forwarded-Proto": "https"}, follow_redirects=False
        )
        assert answer.status_code == 303 and answer.headers["location"].startswith("/login")
    answer = lab.client.get("/api/v1/clusters", headers={"Cookie": f"__Host-bai-app={app}"})
    assert answer.status_code == 401


def test_two_cookies_of_ours_are_nobodys(lab: AppLab) -> None:
    own, other = (lab.in_app(who).jar[HOST]["__Host-bai-app"] for who in ("ada", "operator-of-p"))
    for sent in (
        [("Cookie", f"__Host-bai-app={own}; __Host-bai-app={other}")],
        [("Cookie", f"__Host-bai-app={own}"), ("Cookie", f"__Host-bai-app={other}")],
    ):
        assert nobody(lab.ask(headers=sent))
    odd = [("Cookie", f"\x0b__Host-bai-app={other}; __Host-bai-app={own}")]
    assert lab.ask(headers=odd).passed, "what browsers let other hosts set is not taken for ours"


def test_huge_cookies_cost_little(lab: AppLab, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    plain = SealedBox.open
    monkeypatch.setattr(SealedBox, "open", lambda box, text: opened.append(text) or plain(box, text))
    assert nobody(with_cookie(lab, "x" * 60_000))
    assert (
        nobody(lab.ask("/.bai/open", headers={"Cookie": "; ".join(f"c{n}=x" for n in range(8000))})) or True
    )
    assert not any(len(text) > 4000 for text in opened)


# --- other sites, and other apps of the same site -----------------------------------------------------------


@pytest.mark.parametrize(("site", "origin"), [("cross-site", EVIL), ("same-site", SIBLING)])
def test_pages_of_others_send_nothing_to_an_app_in_somebodys_name(
    lab: AppLab, site: str, origin: str
) -> None:
    who = lab.in_app("ada")
    fetched = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"}
    form = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    framed = {**form, "Sec-Fetch-Dest": "iframe"}
    for method, said in [
        ("POST", {**fetched, "Origin": origin}), ("GET", {**fetched, "Origin": origin}), ("GET", fetched),
        ("POST", {**form, "Origin": origin}), ("POST", {**form, "Origin": "null"}), ("POST", form),
        ("GET", framed), ("GET", {**framed, "Sec-Fetch-Dest": "embed"}),
        ("GET", {**fetched, "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"}),
        ("OPTIONS", {**fetched, "Origin": origin, "Access-Control-Request-Method": "POST"}),
        ("POST", {"Origin": origin}), ("PUT", {"Origin": origin}), ("GET", {"Origin": origin}),
    ]:  # fmt: skip
        told = who.ask("/api", method=method, headers=said)
        assert told.status == 403 and not told.passed, (method, said)
    for said in ({"Origin": origin}, {"Origin": "null"}, {}, {**fetched, "Origin": f"https://{HOST}"}):
        assert who.ask("/ws", upgrade="websocket", headers=said).status == 403
    assert who.ask("/tree", headers={**form, **PAGES}).passed, "links to it are followed"
    assert who.ask("/ws", upgrade="websocket", headers={"Origin": f"https://{HOST}"}).passed


def test_no_app_is_shown_within_another_page_and_no_login_goes_on_there(lab: AppLab) -> None:
    framed = {
        **PAGES,
        "Sec-Fetch-Site": "same-site",
        "Sec-Fetch-Mode": "navigate",
        "Sec-Fetch-Dest": "iframe",
    }
    who = lab.browser()
    who.log_in("ada")
    answer = who.panel.get(
        f"/apps/open?{urlencode({'to': f'https://{HOST}/', 'browser': 'b' * 43})}", headers=framed
    )
    assert answer.status_code == 403 and "refresh" not in answer.headers
    page = who.to_panel(who.ask())
    assert who.ask(code_uri(page, HOST), headers=framed).status == 403
    assert who.ask(code_uri(page, HOST)).status == 302, "it is not used up by that"


# --- the way of a login ------------------------------------------------------------------------------------


def test_the_panel_leads_to_apps_of_this_server_alone(lab: AppLab) -> None:
    who = lab.browser()
    who.log_in("admin")
    for to in (
        EVIL, "//evil.test", "evil.test", "javascript:alert(1)", "", f"https://{HOST}.evil.test/",
        f"https://evil.test/#{HOST}", f"https://evil.test\\@{HOST}/", f"https://{HOST}@evil.test/",
        f"https://user@{HOST}/", f"https://{HOST}:8443/", f"ftp://{HOST}/", f"https://{UNKNOWN}/",
        f"https://x.{HOST}/", "https://[", f"https://{HOST}%2eevil.test/", "https://apps.example/",
    ):  # fmt: skip
        answer = who.panel.get(f"/apps/open?{urlencode({'to': to, 'browser': 'b' * 43})}")
        assert answer.status_code == 404 and not {"location", "refresh"} & set(answer.headers), to
    for browser in ("", "b", "b" * 44, "b" * 42 + "\n", "b" * 42 + "<"):
        query = urlencode({"to": f"https://{HOST}/", "browser": browser})
        assert who.panel.get(f"/apps/open?{query}").status_code == 422


@pytest.mark.parametrize(
    "path", ["//evil.test/", "/\\evil.test", "/.bai/open?code=x", "/%2ebai/leave", "/a\nb", "/a b", ""]
)
def test_a_login_goes_on_within_the_app_alone(lab: AppLab, path: str) -> None:
    who = lab.browser()
    begun = who.ask()
    who.log_in("ada")
    browser = begun.headers["location"].rpartition("browser=")[2]
    page = who.panel.get(f"/apps/open?{urlencode({'to': f'https://{HOST}{path}', 'browser': browser})}")
    sealed = parse_qs(urlsplit(code_uri(page, HOST)).query)["code"][0]
    inside = lab.sealer.box(f"app-code {HOST}", CODE_LIFETIME).open(sealed)
    assert inside is not None and json.loads(zlib.decompress(inside))[2] == "/", "the panel looks at it"
    opened = who.ask(code_uri(page, HOST))
    assert (opened.status, opened.headers["location"]) == (302, "/")
    login = AppLogin("token", (token("ada"),), time.time() + 60)
    code = LoginCodes(lab.sealer).issue(HOST, browser, login, path)
    opened = who.ask(f"/.bai/open?{urlencode({'code': code})}")
    assert (opened.status, opened.headers["location"]) == (302, "/"), "and so does the gate"


def test_a_code_is_good_once(lab: AppLab) -> None:
    who = lab.browser()
    who.log_in("ada")
    code = code_uri(who.to_panel(who.ask()), HOST)
    assert who.ask(code).status == 302
    who.jar[HOST].pop("__Host-bai-app")
    again = who.ask(code)
    assert again.status == 403 and "used already" in again.body and not again.cookies


def test_a_code_is_good_for_a_minute(lab: AppLab, monkeypatch: pytest.MonkeyPatch) -> None:
    who = lab.browser()
    who.log_in("ada")
    code = code_uri(who.to_panel(who.ask()), HOST)
    now = time.time()
    monkeypatch.setattr("cryptography.fernet.time.time", lambda: now + CODE_LIFETIME + 2)
    assert who.ask(code).status == 403


def test_a_code_is_good_at_its_own_host(lab: AppLab) -> None:
    who = lab.browser()
    who.log_in("ada")
    code = code_uri(who.to_panel(who.ask()), HOST)
    who.ask(host=OTHER)
    who.jar[OTHER] |= who.jar[HOST]
    for host in (OTHER, UNKNOWN):
        assert who.ask(code, host).status == 403
    assert who.ask(code).status == 302
    codes = LoginCodes(lab.sealer)
    cookies = {host: codes.browser_cookie(host, "") for host in (HOST, OTHER)}
    for_other = codes.issue(HOST, codes.browser(OTHER, cookies[OTHER]), AppLogin("token", ("x",), 1e12), "/")
    with pytest.raises(PermissionError):
        codes.redeem(OTHER, for_other, cookies[OTHER])
    carried = codes.issue(HOST, codes.browser(HOST, cookies[OTHER]), AppLogin("token", ("x",), 1e12), "/")
    with pytest.raises(PermissionError):
        codes.redeem(HOST, carried, cookies[OTHER])


def test_an_apps_own_script_uses_up_no_code(lab: AppLab) -> None:
    who = lab.browser()
    who.log_in("ada")
    code = code_uri(who.to_panel(who.ask()), HOST)
    script = {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"}
    for method, said in (("GET", script), ("POST", {**script, "Origin": f"https://{HOST}"})):
        told = who.ask(code, headers=said, method=method)
        assert told.status == 404 and not told.cookies
    assert who.ask(code).status == 302


def test_nobody_is_logged_in_as_somebody_else(lab: AppLab) -> None:
    """An attacker has a code of their own login, and has somebody's browser open it."""
    attacker, victim = lab.browser(), lab.browser()
    attacker.log_in("operator-of-p")
    code = code_uri(attacker.to_panel(attacker.ask()), HOST)
    fresh = victim.ask(code)
    assert fresh.status == 403 and not fresh.cookies
    victim.ask()
    assert victim.ask(code).status == 403, "nor where they have begun themselves"
    assert attacker.ask(code).status == 302


def test_a_code_that_somebody_else_has_begun_logs_nobody_in(lab: AppLab) -> None:
    """An attacker has somebody go the panel's way with what the attacker's own browser began."""
    attacker, victim = lab.browser(), lab.browser()
    begun = attacker.ask()
    victim.log_in("ada")
    code = code_uri(victim.to_panel(begun), HOST)
    assert victim.ask(code).status == 403
    assert HOST not in victim.jar or "__Host-bai-app" not in victim.jar[HOST]


def test_what_is_in_a_code_is_read_by_nobody(lab: AppLab) -> None:
    who = lab.browser()
    who.log_in("ada")
    page = who.to_panel(who.ask())
    assert token("ada") not in page.text + str(page.headers) and "ada" not in code_uri(page, HOST)


def test_a_login_elsewhere_ends_nothing_and_a_form_elsewhere_logs_nobody_out(lab: AppLab) -> None:
    who = lab.in_app("ada")
    for said in (
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"},
        {"Origin": EVIL},
        {"Origin": SIBLING}, {"Origin": "null"}, {},
    ):  # fmt: skip
        told = who.ask("/.bai/leave", method="POST", headers=said)
        assert told.status == 403 and not cookie_names(told)
    assert who.ask().passed


# --- paths and headers --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "uri",
    ["/.bai/", "/.bai", "/.bai/x", "/.bai/../", "/.bai/../tree", "/%2ebai/", "/%2e%62ai/open", "//.bai/",
     "/./.bai/", "/x/../.bai/", "/x/%2e%2e/.bai/", "/.bai%2fopen", "/%252ebai/", "/.BAI/open", "/.bai;x/",
     "/\\.bai/"],
)  # fmt: skip
def test_what_is_below_the_gates_path_reaches_no_app(lab: AppLab, uri: str) -> None:
    for said in (bearer(token("ada")), {**bearer(token("ada")), **PAGES}):
        for method in ("GET", "POST"):
            told = lab.ask(uri, headers={**said, "Origin": f"https://{HOST}"}, method=method)
            assert not told.passed and told.status in (403, 404), (uri, told)
    told = lab.ask(uri, "jupyter--open--p.apps.example")
    assert not told.passed, "not of public apps, either"


def test_what_a_client_says_in_caddys_name_is_not_believed_beside_it(lab: AppLab) -> None:
    ada = bearer(token("ada"))
    for more in (
        ("X-Forwarded-Host", OTHER), ("X-Forwarded-Uri", "/x"), ("X-Forwarded-Method", "GET"),
        ("Bai-Upgrade", "websocket"), ("X-Forwarded-For", "10.0.0.1"), ("Origin", EVIL),
        ("Authorization", "x"),
    ):  # fmt: skip
        twice = [*ada.items(), more, *([more] if more[0] in ("Origin",) else [])]
        assert lab.ask(headers=twice).status == 400, more
    for name in ("X-Forwarded-User", "X_Forwarded_Host", "Bai-Upstream", "Bai-Cookie", "Bai-Authorization"):
        told = lab.ask(headers={**ada, name: "evil"})
        assert told.passed and "evil" not in str(told.raw)


def test_nobody_asks_the_gate_but_caddy(lab: AppLab) -> None:
    """It is no part of what the server itself answers."""
    paths = {route.path for route in lab.app.routes if isinstance(route, APIRoute)}
    assert not paths & {"/check", "/unanswered", "/certificate"}
    said = {"X-Forwarded-Method": "GET", "X-Forwarded-Uri": "/", "X-Forwarded-Host": HOST}
    for path in ("/check", "/unanswered", "/certificate"):
        assert lab.client.get(path, headers={**said, **bearer(token("ada"))}).status_code == 404


def test_no_token_of_bais_reaches_an_app_good_or_bad(lab: AppLab) -> None:
    own = lab.in_app("ada").jar[HOST]["__Host-bai-app"]
    public = "jupyter--open--p.apps.example"
    for spelled in ("Bearer {}", "bearer {}", "BEARER   {} "):
        for known in (token("ada"), token("nobody-any-more")):
            for host in (HOST, public):
                said = {"Authorization": spelled.format(known), "Cookie": f"__Host-bai-app={own}"}
                told = lab.ask(host=host, headers=said)
                assert "bai-authorization" not in told.headers
                assert known not in str(told.raw)


def test_texts_of_a_request_stay_texts(lab: AppLab) -> None:
    word = "/<img src=x onerror=alert(1)>?\"'><script>"
    for uri in (word, "/.bai/" + word, f"/.bai/link?token={quote(word)}"):
        for said in ({**PAGES}, {**PAGES, **bearer(token("ours"))}):
            told = lab.ask(uri, headers=said)
            assert "<img" not in told.body and "<script" not in told.body
            assert "\n" not in told.headers.get("location", "") and "<" not in told.headers.get(
                "location", ""
            )


def test_nothing_that_is_sent_breaks_the_gate(lab: AppLab) -> None:
    odd = [
        "",
        "\xff",
        "a" * 9000,
        "=;=;",
        "Bearer",
        "Bearer ",
        "Bearer a.b.c",
        "Bearer ..",
        "Bearer \xff.\xff.\xff",
    ]
    for value in odd:
        for name in ("Cookie", "Authorization", "Origin", "Sec-Fetch-Site", "Accept"):
            assert lab.ask(headers={name: value}).status in (302, 401, 403)
        for uri in (
            f"/.bai/open?code={quote(value, encoding='latin-1')}",
            f"/.bai/link?token={quote(value, encoding='latin-1')}",
        ):
            assert lab.ask(uri).status == 403
        cookie = {"Cookie": f"__Host-bai-app={value}; __Host-bai-app-login={value}"}
        assert lab.ask("/.bai/open?code=x", headers=cookie).status == 403
    jwt = ".".join(["eyJhbGciOiJub25lIn0", "eyJpc3MiOiJ4In0", ""])
    assert nobody(lab.ask(headers=bearer(jwt)))


# --- links --------------------------------------------------------------------------------------------------


def test_links_are_forged_by_nobody(lab: AppLab) -> None:
    found = lab.app.state.apps.at(HOST)
    own, later = found.app, time.time() + 60
    links = AppLinks(lab.sealer)
    good = links.make(HOST, own.kernel, "ada", later)
    bad = [
        links.make(OTHER, own.kernel, "ada", later), links.make(HOST, "another-kernel", "ada", later),
        links.make(HOST, own.kernel, "ada", time.time() - 1), links.make(HOST, "", "ada", later),
        AppLinks(CookieSealer("x" * 40)).make(HOST, own.kernel, "ada", later),
        good[:-3], json.dumps(["id", own.kernel, "ada", later]), "",
        lab.in_app("ada").jar[HOST]["__Host-bai-app"],
    ]  # fmt: skip
    for each in bad:
        told = lab.ask(f"/.bai/link?token={quote(each)}", headers=PAGES)
        assert told.status == 403 and not told.cookies, each
    assert lab.ask(f"/.bai/link?token={good}&token={good}").status == 403
    assert lab.ask(f"/.bai/link?token={good}", headers=PAGES).status == 302


def test_a_cookie_of_a_link_is_no_login(lab: AppLab) -> None:
    """Neither for another session, nor at the panel, nor after its end."""
    found = lab.app.state.apps.at(HOST)
    cookies = AppCookies(lab.sealer)
    for kernel, until in ((found.app.kernel, time.time() - 1), ("another", 1e12), ("", 1e12)):
        sealed = cookies.seal(HOST, AppLogin("link", ("id", kernel, "ada"), until))
        told = with_cookie(lab, sealed)
        assert told.status in (401, 403) and not told.passed
    gate = create_gate(lab.hub, lab.access, lab.sealer, PANEL, lambda app: "x")
    sealed = cookies.seal(HOST, AppLogin("link", ("id", found.app.kernel, "ada"), time.time() + 60))
    assert lab.ask(gate=gate, headers={"Cookie": f"__Host-bai-app={sealed}"}).passed
