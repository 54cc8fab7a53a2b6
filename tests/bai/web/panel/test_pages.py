"""Pages of a server over a fake world: who sees them, what is in them, what others can do with them."""

from __future__ import annotations

import gzip
import re
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from fastapi import Request, Response
from fastapi.testclient import TestClient
from markupsafe import Markup

from bai.web.panel.access.cookies import LIFETIME, CookieSealer
from bai.web.panel.pages import POLICY, Fragment, Frame
from schemas.problems.errors.store import StoreUnavailable
from tests.bai.web.lab import Lab, bearer
from tests.bai.web.panel.logins import SAME, browser, logged_in
from tests.bai.web.panel.rendering import SECRET
from tests.reconciler.lab import session


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """With one session that runs; tests leave it as it is."""
    made = Lab(tmp_path_factory.mktemp("site"))
    made.write("s", session("ours"))
    made.once()
    made.once()
    yield made
    made.close()


PAGES = (
    "",
    "nodes/n1",
    "queue",
    "sessions",
    "sessions/p/ours",
    "sessions/p/ours/logs",
    "plan",
    "review",
    "reviews",
    "compare",
    "history",
    "nodes",
    "resources",
    "resources?kind=Node",
    "audit",
    "events",
    "usage",
    "capacity",
    "projects",
    "projects/p",
    "users",
    "groups",
    "groups/default",
    "waves",
    "storage",
    "images",
    "notifications",
    "numbers",
    "numbers/showback",
)

OF_ALL = ("plan", "review", "reviews", "compare", "history", "waves", "notifications")
"""Those that are for who sees all projects."""


@pytest.mark.parametrize("page", PAGES)
def test_each_page_is_shown_to_who_is_logged_in_and_to_nobody_else(site: Lab, page: str) -> None:
    name = site.workspace.cluster.name
    address = f"/clusters/{name}/{page}".rstrip("/")
    away = browser(site).get(address)
    assert away.status_code == 303 and away.headers["location"].startswith("/login?next=")
    shown = logged_in(site).get(address)
    assert shown.status_code == 200, shown.text
    assert shown.headers["content-security-policy"] == POLICY
    assert shown.headers["cache-control"] == "no-store"
    assert '<main id="main"' in shown.text and "viewer" in shown.text


def test_a_token_is_asked_for_and_kept_in_a_cookie_that_only_this_server_reads(site: Lab) -> None:
    visitor = browser(site)
    assert visitor.get("/").headers["location"] == "/login"
    assert visitor.get("/login").status_code == 200
    for wrong in ("", "nobody", "a.b.c"):
        refused = visitor.post("/login", data={"credential": wrong}, headers=SAME)
        assert refused.status_code == 403 and "set-cookie" not in refused.headers
        assert 'role="alert"' in refused.text
    kept = visitor.post("/login", data={"credential": " viewer ", "next": "/clusters/x?a=b"}, headers=SAME)
    assert kept.headers["location"] == "/clusters/x?a=b"
    cookie = kept.headers["set-cookie"]
    assert cookie.startswith("bai=") and "HttpOnly" in cookie and "SameSite=lax" in cookie
    assert "Secure" not in cookie and "viewer" not in cookie
    assert visitor.get("/").headers["location"] == f"/clusters/{site.workspace.cluster.name}"
    secure = browser(site).post(
        "/login", data={"credential": "viewer"}, headers={**SAME, "X-Forwarded-Proto": "https"}
    )
    assert secure.headers["set-cookie"].startswith("__Host-bai=") and "Secure" in secure.headers["set-cookie"]


def test_a_login_ends_with_its_token_its_time_and_its_key(site: Lab) -> None:
    visitor, sealer = logged_in(site), site.app.state.panel.sealer
    assert visitor.get("/").status_code == 303
    old = sealer._fernet.encrypt_at_time(b"viewer", int(time.time()) - LIFETIME - 60).decode()
    for sealed in (old, CookieSealer().seal("viewer"), sealer.seal("taken-back"), "x", "\u00e4"):
        stale = browser(site)
        answer = stale.get("/clusters/x", headers={"Cookie": f"bai={sealed}".encode()})
        assert answer.headers["location"] == "/login?next=%2Fclusters%2Fx&ended=1", sealed
        assert 'bai=""; ' in answer.headers["set-cookie"] and "Max-Age=0" in answer.headers["set-cookie"]
    one, other = CookieSealer("k" * 32), CookieSealer("k" * 32)
    assert other.open(one.seal("t")) == "t"


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Origin": "http://panel.test"},
        {"Sec-Fetch-Site": "none"},
        {"Origin": "http://evil.test"},
        {"Origin": "null"},
        {},
    ],
)
def test_what_another_site_sends_changes_nothing(site: Lab, headers: dict[str, str]) -> None:
    visitor = logged_in(site)
    for address, fields in (
        ("/login", {"credential": "admin"}),
        ("/logout", {"token": form_token(visitor, site)}),
    ):
        answer = visitor.post(address, data=fields, headers=headers)
        assert answer.status_code == 403 and "set-cookie" not in answer.headers
    assert visitor.get(f"/clusters/{site.workspace.cluster.name}/nodes").status_code == 200


def form_token(visitor: TestClient, lab: Lab) -> str:
    page = visitor.get(f"/clusters/{lab.workspace.cluster.name}/nodes").text
    found = re.search(r'name="token" value="([0-9a-f]{64})"', page)
    assert found
    return found[1]


def test_logging_out_needs_the_form_of_this_very_login(site: Lab) -> None:
    visitor, other = logged_in(site), logged_in(site)
    for wrong in ("", form_token(other, site), "0" * 64):
        assert visitor.post("/logout", data={"token": wrong}, headers=SAME).status_code == 403
    done = visitor.post(
        "/logout", data={"token": form_token(visitor, site)}, headers={"Origin": "http://panel.test"}
    )
    assert done.headers["location"] == "/login"
    assert visitor.get("/").headers["location"] == "/login"


def test_a_kept_page_with_a_form_has_the_token_of_whoever_looks(site: Lab) -> None:
    panel, name = site.app.state.panel, site.workspace.cluster.name
    made = panel._environment.from_string(
        '{% extends "base.html" %}{% from "blocks.html" import form_token with context %}'
        "{% block main %}<form method=post>{{ form_token() }}{{ text }}</form>{% endblock %}"
    ).render(cluster=name, text="<!--form-token-->" + "x" * 1000)
    title, heading, main, scripts = map(Markup, made.split("<!--part-->"))
    fragment = Fragment(title, heading, main, scripts)

    def shown(token: str, **headers: str) -> Response:
        found = Frame(cluster=name, user="ann", form_token=token)
        page = panel.kept_page(found, "form", 1, lambda: fragment)
        raw = [(key.replace("_", "-").encode(), value.encode()) for key, value in headers.items()]
        answer: Response = panel.respond_kept(Request({"type": "http", "headers": raw}), page, found)
        return answer

    one, other = "1" * 64, "2" * 64
    for token in (one, other):
        for headers in ({}, {"hx_request": "true"}, {"hx_request": "true", "accept_encoding": "gzip"}):
            answer = shown(token, **headers)
            text = bytes(answer.body)
            assert ("content-encoding" in answer.headers) == ("accept_encoding" in headers)
            text = gzip.decompress(text) if "content-encoding" in answer.headers else text
            assert f'name="token" value="{token}"'.encode() in text
            assert text.count(b"&lt;!--form-token--&gt;") == 1 and b"<!--form-token-->" not in text
    tag = shown(one, hx_request="true").headers["etag"]
    assert shown(one, hx_request="true", if_none_match=tag).status_code == 304
    assert shown(other, hx_request="true", if_none_match=tag).status_code == 200


@pytest.mark.parametrize(
    "elsewhere",
    [
        "//evil.test",
        "https://evil.test",
        "/\\evil.test",
        "\\\\evil.test",
        "evil",
        "/\t/evil.test",
        "javascript:1",
    ],
)
def test_a_login_leads_nowhere_else(site: Lab, elsewhere: str) -> None:
    visitor = browser(site)
    form = visitor.get("/login", params={"next": elsewhere}).text
    assert 'name="next" value="/"' in form
    answer = visitor.post("/login", data={"credential": "viewer", "next": elsewhere}, headers=SAME)
    assert answer.headers["location"] == "/"


def test_the_api_takes_no_cookies_and_pages_no_headers(site: Lab) -> None:
    visitor = logged_in(site, "admin")
    assert visitor.get("/api/v1/clusters").status_code == 401
    name = site.workspace.cluster.name
    assert visitor.put(f"/api/v1/clusters/{name}/suspend", headers=SAME).status_code in (401, 405)
    nobody = browser(site).get("/", headers={"Authorization": "Bearer viewer"})
    assert nobody.headers["location"] == "/login"


def test_roles_and_projects_are_those_of_the_api(site: Lab) -> None:
    name = site.workspace.cluster.name
    ours = logged_in(site, "ours")
    for page in ("plan", "review", "reviews", "compare", "history"):
        assert ours.get(f"/clusters/{name}/{page}").status_code == 403
    text = ours.get(f"/clusters/{name}/events").text
    assert "viewer of p" in text and "/plan" not in text and "/history" not in text


def test_a_page_that_is_open_gets_what_is_new_and_nothing_else(lab: Lab) -> None:
    lab.once()
    visitor, name = logged_in(lab), lab.workspace.cluster.name
    address, asks = f"/clusters/{name}/resources?kind=Session", {"HX-Request": "true"}
    first = visitor.get(address, headers=asks)
    assert first.text.count("<html") == 0 and '<main id="main"' in first.text and 'id="foot"' in first.text
    main = re.compile(r"<main.*</main>", re.DOTALL)
    assert main.findall(first.text) == main.findall(visitor.get(address).text)
    again = visitor.get(address, headers={**asks, "If-None-Match": first.headers["etag"]})
    assert again.status_code == 304 and not again.content
    other = logged_in(lab, "operator").get(address, headers=asks)
    assert other.headers["etag"] == first.headers["etag"], "the same for all who see the same"
    lab.write("more", session("later"))
    lab.once()
    assert "later" in visitor.get(address, headers=asks).text


def test_news_is_counted_only_where_something_changed(lab: Lab) -> None:
    news = lab.app.state.panel.news[lab.workspace.cluster.name]
    lab.once()
    lab.once()
    before = news.count
    for _ in range(3):
        lab.once()
    assert news.count == before
    lab.write("more", session("later"))
    lab.once()
    assert news.count == before + 1


def test_what_is_not_there_is_said_on_a_page(site: Lab) -> None:
    visitor, name = logged_in(site), site.workspace.cluster.name
    for wrong in ("sort=colour", "page=0", "page=x", f"q={'q' * 301}"):
        assert visitor.get(f"/clusters/{name}/sessions?{wrong}").status_code == 422
    for address in ("/clusters/none/nodes", f"/clusters/{name}/resources/Session/p/none"):
        answer = visitor.get(address)
        assert answer.status_code == 404 and "<h1>" in answer.text
        assert answer.headers["content-security-policy"] == POLICY
    assert visitor.get("/api/v1/nothing").headers["content-type"] == "application/json"


def test_files_are_kept_for_ever_under_their_contents_name(site: Lab) -> None:
    visitor = browser(site)
    page = visitor.get("/login").text
    found = re.findall(r'(?:href|src)="(/assets/[^"#]+)', page)
    assert found
    for address in found:
        answer: httpx.Response = visitor.get(address)
        assert answer.status_code == 200 and "immutable" in answer.headers["cache-control"]
        assert answer.headers["x-content-type-options"] == "nosniff"
    for wrong in ("/assets/panel.css", "/assets/..%2f..%2fapp.py", "/assets/%2e%2e/app.py"):
        assert visitor.get(wrong).status_code == 404


def test_nothing_of_another_project_is_on_a_page(world: Lab) -> None:
    visitor, name = logged_in(world, "ours"), world.workspace.cluster.name
    pages = [page for page in PAGES if page not in OF_ALL]
    pages = [page.replace("p/ours", "p/own") for page in pages]
    for page in (*pages, "sessions?q=run", "usage?by=session", "sessions/p/waiting?explain=1"):
        for asks in ({}, {"HX-Request": "true"}):
            shown = visitor.get(f"/clusters/{name}/{page}".rstrip("/"), headers=asks)
            assert shown.status_code == 200, page
            assert SECRET not in shown.text, page
    theirs = f"/clusters/{name}/sessions/{SECRET}/{SECRET}-run"
    for address in (
        theirs,
        f"{theirs}/logs",
        f"{theirs}/log-text",
        f"/clusters/{name}/resources/Project/{SECRET}",
    ):
        assert visitor.get(address).status_code == 404, address
    seen = logged_in(world).get(f"/clusters/{name}/sessions")
    assert SECRET in seen.text


def test_who_waits_is_told_by_the_queue_and_not_above_every_page(world: Lab) -> None:
    visitor, name = logged_in(world), world.workspace.cluster.name
    assert any(" waits: " in note for note in world.hub.clusters[name].latest.notes)  # type: ignore[union-attr]
    assert " waits: " not in visitor.get(f"/clusters/{name}/nodes").text


def test_a_store_that_is_away_ends_no_loop_and_its_news_comes_later(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.once()
    news, store = lab.app.state.panel.news[lab.workspace.cluster.name], lab.workspace.store
    before = news.count

    def away(cluster: str) -> int:
        raise StoreUnavailable(store="postgresql://db", why="gone", hint="")

    with monkeypatch.context() as gone:
        gone.setattr(store, "revision", away)
        lab.write("more", session("later"))
        assert lab.once()
    assert news.count == before
    lab.once()
    assert news.count > before


def test_a_page_says_when_to_come_again_as_the_api_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab(tmp_path)
    page = logged_in(lab)

    def answers(name: str) -> tuple[httpx.Response, httpx.Response]:
        of_api = lab.client.get(f"/api/v1/clusters/here/{name}", headers=bearer("viewer"))
        return of_api, page.get(f"/clusters/here/{name}")

    def away(*_: object, **__: object) -> None:
        raise StoreUnavailable(store="postgresql://db", why="gone", hint="")

    refused = [*answers("queue")]  # Nothing was seen yet.
    assert lab.once(), lab.lines
    monkeypatch.setattr(lab.workspace.store, "audit", away)
    refused += answers("audit")
    assert [each.status_code for each in refused] == [503] * 4
    assert [each.headers.get("Retry-After") for each in refused] == ["2"] * 4
    lab.close()
