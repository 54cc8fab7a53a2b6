"""Links that open an app for whoever has them."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import urlsplit

import pytest

from bai.web.apps.gate import create_gate
from bai.web.auth.roles import AnonymousAuthenticator, Role, StaticAccess
from schemas.problems.errors.store import StoreError
from tests.bai.web.apps.lab import (
    HOST,
    OTHER,
    PAGES,
    PANEL,
    PROXY,
    AppLab,
    access,
    app_session,
    cookie_names,
    token,
)
from tests.bai.web.lab import bearer


def share(lab: AppLab, who: str = "operator-of-p", what: str = "p/own/jupyter", seconds: Any = 600) -> Any:
    where = f"/api/v1/clusters/here/apps/{what}/links"
    return lab.client.post(where, json={"for": seconds}, headers=bearer(token(who)))


def linked(lab: AppLab, **options: Any) -> str:
    """The path of a link."""
    answer = share(lab, **options)
    assert answer.status_code == 200, answer.text
    parts = urlsplit(answer.json()["url"])
    assert parts.scheme == "https"
    return f"{parts.path}?{parts.query}"


def audit(lab: AppLab) -> list[tuple[str, str, str, str]]:
    entries = lab.workspace.store.audit("here")
    return [
        (e.actor, e.verb, e.resource, e.cause)
        for e in entries
        if e.verb.endswith("-app") or e.verb.endswith("-link")
    ]


def test_a_link_opens_its_app_for_whoever_has_it_and_that_is_written_down(app_lab: AppLab) -> None:
    answer = share(app_lab).json()
    link = linked(app_lab)
    who = app_lab.browser()
    let_in = who.ask(link)
    assert (let_in.status, let_in.headers["location"]) == (302, "/")
    assert (
        let_in.headers["cache-control"] == "no-store" and let_in.headers["referrer-policy"] == "no-referrer"
    )
    assert who.ask("/tree").passed
    own = {"Origin": f"https://{HOST}"}
    assert who.ask("/api", method="POST", headers=own).passed
    assert who.ask("/ws", upgrade="websocket", headers=own).passed
    assert app_lab.browser().ask(link, peer="192.0.2.8").status == 302, "it is for more than one"
    made = ("operator-of-p", "share-app", "Session/p/own")
    assert [entry[:3] for entry in audit(app_lab)] == [
        made,
        made,
        ("a link of operator-of-p", "open-link", "Session/p/own"),
    ]
    assert audit(app_lab)[0][3] == f"app jupyter: a link for whoever has it, until {answer['until']}"
    assert audit(app_lab)[2][3] == "app jupyter: first opened from 192.0.2.7, by a link of operator-of-p"


def test_a_link_ends_with_its_time(app_lab: AppLab) -> None:
    link, who = linked(app_lab, seconds=60), app_lab.browser()
    assert who.ask(link).status == 302 and who.ask().passed
    clock = [time.time() + 61]
    later = create_gate(
        app_lab.hub, app_lab.access, app_lab.sealer, PANEL, lambda app: "x", clock=lambda: clock[0]
    )
    assert app_lab.browser().ask(link, gate=later).status == 403
    ended = who.ask(gate=later)
    assert ended.status == 302 and ended.headers["location"].startswith(PANEL), "its cookie is of no more use"


def test_a_link_ends_when_its_session_is_replaced(app_lab: AppLab) -> None:
    link, who = linked(app_lab), app_lab.browser()
    assert who.ask(link).status == 302 and who.ask().passed
    app_lab.write("own", app_session("own", cpu=2))
    app_lab.once()
    app_lab.once()
    ended = who.ask()
    assert ended.status == 403 and "has ended" in ended.body
    assert cookie_names(ended) == {"__Host-bai-app"} and who.ask().status == 302
    assert app_lab.browser().ask(link).status == 403


def test_a_link_is_for_one_app(app_lab: AppLab) -> None:
    link = linked(app_lab)
    for host in (OTHER, "jupyter--nobody--p.apps.example"):
        answer = app_lab.browser().ask(link, host)
        assert (answer.status, cookie_names(answer)) == (403, set())


def test_who_may_open_an_app_makes_links_to_it_and_nobody_else(app_lab: AppLab) -> None:
    statuses = {
        (who, what): share(app_lab, who, f"{what}/jupyter").status_code
        for who in ("operator-of-p", "ada", "ours", "eve", "of-q", "admin", "nobody")
        for what in ("p/own", "p/owned", "p/shared", "q/zebra", "p/nothing")
    }
    allowed = {pair for pair, status in statuses.items() if status == 200}
    assert allowed == {
        ("operator-of-p", "p/own"), ("operator-of-p", "p/shared"),
        ("ada", "p/own"), ("ada", "p/owned"), ("ada", "p/shared"),
        ("ours", "p/shared"), ("of-q", "q/zebra"),
        ("admin", "p/own"), ("admin", "p/shared"), ("admin", "q/zebra"),
    }  # fmt: skip
    assert statuses["eve", "p/own"] == statuses["eve", "p/nothing"] == 404
    assert statuses["ours", "p/own"] == 403 and statuses["ours", "p/nothing"] == 404
    assert (
        app_lab.client.post("/api/v1/clusters/here/apps/p/own/jupyter/links", json={"for": 60}).status_code
        == 401
    )
    assert len(audit(app_lab)) == len(allowed)


def test_a_link_makes_no_links(app_lab: AppLab) -> None:
    who = app_lab.browser()
    who.ask(linked(app_lab))
    cookies = {"Cookie": "; ".join(f"{name}={value}" for name, value in who.jar[HOST].items())}
    where = "/api/v1/clusters/here/apps/p/own/jupyter/links"
    assert app_lab.client.post(where, json={"for": 60}, headers=cookies).status_code == 401


def test_links_last_as_long_as_the_cluster_allows(app_lab: AppLab) -> None:
    assert share(app_lab, seconds=3600).status_code == 200
    assert share(app_lab, seconds=3601).status_code == 403
    for seconds in (0, -1, 10**12, "an hour", 1.5, None):
        assert share(app_lab, seconds=seconds).status_code == 422, seconds
    app_lab.write("proxy", PROXY.replace("longestLink: 1h", "longestLink: 0s"))
    app_lab.once()
    assert share(app_lab, seconds=1).status_code == 403


def test_there_are_no_links_to_what_is_public_or_not_there_yet(app_lab: AppLab) -> None:
    app_lab.write("large", app_session("large", cpu=64))
    app_lab.once()
    assert share(app_lab, what="p/open/jupyter").status_code == 409
    assert share(app_lab, what="p/large/jupyter").status_code == 409
    assert audit(app_lab) == []


def test_nobody_in_particular_makes_no_links(app_lab: AppLab) -> None:
    app_lab.app.state.access = StaticAccess([AnonymousAuthenticator(Role.admin)])
    for what in ("own", "shared"):
        where = f"/api/v1/clusters/here/apps/p/{what}/jupyter/links"
        assert app_lab.client.post(where, json={"for": 60}).status_code == 403


def test_who_is_let_in_by_role_stays_who_they_are(app_lab: AppLab) -> None:
    link, who = linked(app_lab), app_lab.in_app("ada")
    before = dict(who.jar[HOST])
    assert who.ask(link).headers["location"] == "/" and who.jar[HOST] == before
    assert not any(verb == "open-link" for _, verb, _, _ in audit(app_lab))


def test_what_cannot_be_written_down_lets_nobody_in(app_lab: AppLab, monkeypatch: pytest.MonkeyPatch) -> None:
    link = linked(app_lab)
    store = type(app_lab.workspace.store)

    def full(*given: object) -> None:
        raise StoreError(store="the store", why="its disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(store, "record_audit", full)
        refused = app_lab.browser().ask(link)
        assert refused.status == 503 and not refused.cookies
        assert share(app_lab).status_code == 503
    assert app_lab.browser().ask(link).status == 302
    assert [verb for _, verb, _, _ in audit(app_lab)] == ["share-app", "open-link"]


def test_a_program_that_looks_at_links_opens_nothing(app_lab: AppLab) -> None:
    link = linked(app_lab)
    assert app_lab.ask(link, method="HEAD").status == 404
    assert app_lab.ask(link, method="POST", headers=PAGES).status == 403
    within = {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"}
    assert app_lab.ask(link, headers=within).status == 404
    assert [verb for _, verb, _, _ in audit(app_lab)] == ["share-app"]


def test_who_made_a_link_need_not_be_known_any_more(app_lab: AppLab) -> None:
    """As security.md says: a link is worth what it was when it was made."""
    link = linked(app_lab)
    gate = create_gate(app_lab.hub, access(**{"operator-of-p": ()}), app_lab.sealer, PANEL, lambda app: "x")
    who = app_lab.browser()
    assert who.ask(link, gate=gate).status == 302 and who.ask(gate=gate).passed
