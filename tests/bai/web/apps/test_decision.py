"""The rules of who may open an app, without a server."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bai.web.apps.decision import (
    LINK_ENDED,
    NO_SUCH_APP,
    NOBODY,
    AppRequest,
    Asker,
    Decision,
    LinkVisitor,
    Login,
    Pass,
    Refuse,
    Wait,
    decide,
)
from bai.web.auth.roles import ANONYMOUS, Principal, Role, RoleBinding
from reconciler.values.apps.app import App

HOST = "jupyter--lab--vision.apps.example"
OWN = f"https://{HOST}"
SIBLING = "https://evil--lab--robots.apps.example"
APP = App(
    "vision", "lab", "jupyter", HOST, OWN, "http", 8888, "operators", "ada", kernel="k1", node="n1",
    phase="RUNNING",
)  # fmt: skip
OWNERS = frozenset({"ada", "ada@lab.example"})
VISION, ROBOTS = frozenset({"vision"}), frozenset({"robots"})
ASKS = AppRequest("GET", HOST, "/", form="html")
TOP = {"mode": "navigate", "dest": "document"}


def person(name: str, role: Role | None = Role.viewer, projects: frozenset[str] | None = VISION) -> Principal:
    return Principal(name, (RoleBinding(role, projects),) if role is not None else ())


def by_cookie(principal: Principal | None = None, link: LinkVisitor | None = None) -> Asker:
    return Asker(principal, link, cookie=True)


def decided(asker: Asker, app: App | None = APP, request: AppRequest = ASKS, now: float = 100.0) -> Decision:
    return decide(request, OWN, app, OWNERS, asker, now)


def with_access(access: Any, **changes: Any) -> App:
    return replace(APP, access=access, **changes)


@pytest.mark.parametrize(
    ("who", "levels"),
    [
        (person("ada"), {"owner", "operators", "project"}),
        (person("ADA@Lab.Example"), {"owner", "operators", "project"}),
        (person("ada", Role.viewer, None), {"owner", "operators", "project"}),
        (person("bob"), {"project"}),
        (person("bob", Role.operator), {"operators", "project"}),
        (person("bob", Role.admin, None), {"operators", "project"}),
        (person("ada", Role.admin, ROBOTS), set()),  # The project is not hers to see any more.
        (person("bob", Role.operator, ROBOTS), set()),
        (person("ada", None), set()),
        (person(ANONYMOUS, Role.admin, None), set()),
    ],
)
def test_who_may_open_which(who: Principal, levels: set[str]) -> None:
    opened = {
        level
        for level in ("owner", "operators", "project")
        if isinstance(decided(by_cookie(who), with_access(level)), Pass)
    }
    assert opened == levels
    assert isinstance(decided(by_cookie(who), with_access("public")), Pass)


def test_nobody_owns_what_has_no_owner() -> None:
    found = decide(ASKS, OWN, with_access("owner", owner=""), frozenset(), by_cookie(person("")), 0.0)
    assert isinstance(found, Refuse)


def test_who_says_nothing_is_asked_whether_there_is_such_an_app_or_not() -> None:
    assert decided(NOBODY) == decided(NOBODY, None) == Login()
    stale = Asker(cookie=True, stale=True)
    assert decided(stale) == decided(stale, None) == Login(stale=True)


def test_what_is_anothers_is_answered_as_what_is_not_there() -> None:
    stranger = by_cookie(person("eve", Role.admin, ROBOTS))
    assert decided(stranger) == decided(stranger, None) == Refuse(404, NO_SUCH_APP)
    assert decided(by_cookie(person("bob"))) == Refuse(
        403, "This app is for the owner of its session, and for operators of its project."
    )


def test_what_does_not_run_is_waited_for_by_those_who_may_open_it_alone() -> None:
    pending = replace(APP, phase="PENDING", kernel="")
    assert isinstance(decided(by_cookie(person("ada")), pending), Wait)
    assert isinstance(decided(by_cookie(person("bob")), pending), Refuse)
    assert isinstance(decided(NOBODY, pending), Login)


LINK = LinkVisitor("id", "k1", "ada", 200.0)


def test_a_link_opens_the_session_that_it_was_made_for_until_its_end() -> None:
    shown = by_cookie(link=LINK)
    assert isinstance(decided(shown), Pass)
    assert isinstance(decided(shown, with_access("owner")), Pass)
    ended = Refuse(403, LINK_ENDED, leave=True)
    assert decided(shown, now=200.0) == ended
    assert decided(shown, replace(APP, kernel="k2")) == ended
    assert decided(shown, replace(APP, kernel="")) == ended
    assert decided(shown, None) == ended
    assert decided(by_cookie(link=replace(LINK, target="")), replace(APP, kernel="")) == ended


ADA = by_cookie(person("ada"))
TOKEN = Asker(person("ada"))


def request(**changes: Any) -> AppRequest:
    return replace(ASKS, **changes)


@pytest.mark.parametrize(
    "asked",
    [
        request(),
        request(site="none", **TOP),
        request(site="cross-site", **TOP),
        request(site="same-site", method="HEAD", **TOP),
        request(site="same-origin", mode="cors", dest="empty"),
        request(site="same-origin", mode="navigate", dest="iframe"),
        request(site="same-origin", method="POST", origin=OWN, mode="cors", dest="empty"),
        request(site="same-origin", method="POST", origin="null", **TOP),
        request(method="POST", origin=OWN),
        request(websocket=True, origin=OWN),
        request(websocket=True, origin=OWN, site="same-origin", mode="websocket", dest="empty"),
    ],
)
def test_what_the_apps_own_pages_send_passes(asked: AppRequest) -> None:
    assert isinstance(decided(ADA, request=asked), Pass)


@pytest.mark.parametrize(
    "asked",
    [
        request(site="cross-site", mode="no-cors", dest="image"),
        request(site="same-site", mode="no-cors", dest="script"),
        request(site="same-site", mode="cors", dest="empty", origin=SIBLING),
        request(site="same-site", mode="navigate", dest="iframe"),
        request(site="cross-site", mode="navigate", dest="iframe"),
        request(site="cross-site", mode="navigate", dest="object"),
        request(site="cross-site", mode="navigate"),
        request(site="same-site", mode="nested-navigate", dest="document"),
        request(site="same-site", method="POST", origin=SIBLING, **TOP),
        request(site="cross-site", method="POST", **TOP),
        request(site="cross-site", method="POST", origin="null", **TOP),
        request(site="something-new", mode="cors", dest="empty"),
        request(site="same-origin", origin=SIBLING),
        request(site="none", origin="null"),
        request(method="POST", origin=SIBLING),
        request(method="POST", origin="null"),
        request(method="POST"),
        request(method="DELETE"),
        request(method="OPTIONS", origin=SIBLING),
        request(origin=f"{OWN}:8443"),
        request(origin=f"http://{HOST}"),
        request(origin=f"{OWN}.evil.test"),
        request(websocket=True),
        request(websocket=True, origin="null"),
        request(websocket=True, origin="null", site="same-origin"),
        request(websocket=True, origin=SIBLING),
        request(websocket=True, origin=OWN, site="same-site"),
        request(websocket=True, site="none"),
        request(websocket=True, site="same-site"),
    ],
)
def test_what_other_pages_send_is_refused_and_tells_nothing(asked: AppRequest) -> None:
    for asker in (ADA, by_cookie(link=LINK)):
        assert isinstance(found := decided(asker, request=asked), Refuse) and found.status == 403
        assert decided(asker, None, asked) == found


def test_who_brings_a_token_needs_no_origin_and_gets_on_from_no_other() -> None:
    assert isinstance(decided(TOKEN, request=request(websocket=True)), Pass)
    assert isinstance(decided(TOKEN, request=request(method="POST")), Pass)
    assert isinstance(decided(TOKEN, request=request(websocket=True, origin=SIBLING)), Refuse)
    assert isinstance(decided(TOKEN, request=request(websocket=True, site="same-site")), Refuse)
    assert isinstance(decided(TOKEN, request=request(method="POST", origin=SIBLING)), Refuse)
    assert isinstance(decided(NOBODY, request=request(websocket=True)), Login)


def test_what_is_public_is_so_for_all_but_pages_of_others() -> None:
    public = with_access("public")
    assert isinstance(decided(NOBODY, public), Pass)
    assert isinstance(decided(NOBODY, public, request(method="POST")), Pass)
    assert isinstance(decided(NOBODY, public, request(method="POST", origin=SIBLING)), Refuse)
    assert isinstance(
        decided(NOBODY, public, request(site="cross-site", mode="navigate", dest="iframe")), Refuse
    )


WORDS = st.sampled_from(["", "same-origin", "same-site", "cross-site", "none", "x"])
REQUESTS = st.builds(
    AppRequest,
    method=st.sampled_from(["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"]),
    host=st.just(HOST),
    uri=st.just("/"),
    origin=st.sampled_from(["", OWN, SIBLING, "null", f"http://{HOST}"]),
    site=WORDS,
    mode=st.sampled_from(["", "navigate", "cors", "no-cors", "websocket", "nested-navigate"]),
    dest=st.sampled_from(["", "document", "iframe", "empty", "script", "image", "frame"]),
    websocket=st.booleans(),
)
PEOPLE = st.builds(
    person,
    st.sampled_from(["ada", "Ada", "bob", ANONYMOUS]),
    st.sampled_from([None, *Role]),
    st.sampled_from([VISION, ROBOTS, None]),
)
LINKS = st.builds(
    LinkVisitor,
    st.just("id"),
    st.sampled_from(["", "k1", "k2"]),
    st.just("ada"),
    st.sampled_from([0.0, 200.0]),
)
ASKERS = st.one_of(
    st.just(NOBODY),
    st.builds(Asker, PEOPLE, cookie=st.booleans()),
    st.builds(lambda link: Asker(link=link, cookie=True), LINKS),
)
APPS = st.builds(
    lambda access, phase, kernel: replace(APP, access=access, phase=phase, kernel=kernel),
    st.sampled_from(["owner", "operators", "project", "public"]),
    st.sampled_from(["RUNNING", "PENDING", "TERMINATED"]),
    st.sampled_from(["", "k1"]),
)


@given(REQUESTS, ASKERS, APPS)
def test_nothing_reaches_an_app_that_another_page_has_sent(asked: AppRequest, asker: Asker, app: App) -> None:
    if not isinstance(decided(asker, app, asked), Pass):
        return
    assert asked.origin in ("", OWN) or (asked.origin, asked.site) == ("null", "same-origin")
    if asked.websocket and asker.cookie:
        assert asked.origin == OWN
    if asked.site not in ("", "same-origin", "none"):
        assert (asked.method in ("GET", "HEAD"), asked.mode, asked.dest) == (True, "navigate", "document")
    assert app.kernel and app.phase == "RUNNING"


@given(REQUESTS, ASKERS, APPS)
def test_nobody_gets_to_an_app_who_is_not_let_in(asked: AppRequest, asker: Asker, app: App) -> None:
    if not isinstance(decided(asker, app, asked), Pass | Wait) or app.access == "public":
        return
    who = asker.principal
    if who is None:
        assert asker.link is not None and asker.link.until > 100
        assert asker.link.target and asker.link.target == app.kernel, "the run that it was made for"
    else:
        assert who.name != ANONYMOUS and who.may(Role.viewer, "vision")
        assert app.access == "project" or who.name.lower() == "ada" or who.may(Role.operator, "vision")
        assert app.access != "owner" or who.name.lower() == "ada"


@given(REQUESTS, APPS)
def test_a_stranger_hears_nothing_of_what_there_is(asked: AppRequest, app: App) -> None:
    if app.access != "public":
        assert decided(NOBODY, app, asked) == decided(NOBODY, None, asked)
