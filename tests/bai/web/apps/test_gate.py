"""What the gate answers: to whom it gives which app, what an app gets of a request, and what one hears who
has to wait or to log in."""

from __future__ import annotations

import ipaddress
import re
import time
from dataclasses import replace
from types import SimpleNamespace
from urllib.parse import quote

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from hypothesis import given
from hypothesis import strategies as st

from bai.web.apps.app_cookies import AppCookies, without_ours
from bai.web.apps.gate import create_gate
from bai.web.apps.reserved_paths import LONGEST_ONWARD
from bai.web.auth.grants import Grant, Grants, Identity
from bai.web.auth.login_providers import login_providers
from bai.web.auth.oidc import CACHE_LIFETIME, IssuerKeys, OidcAuthenticator, TokenRules
from bai.web.auth.proxy import ProxyAuthenticator
from bai.web.auth.roles import (
    AnonymousAuthenticator,
    OidcClient,
    Role,
    StaticAccess,
)
from bai.web.panel.access import kept_identity
from bai.web.panel.access.cookies import CookieSealer, SealedBox
from bai.web.panel.access.kept_identity import seal_identity
from schemas.problems.errors.repository import CannotRead
from tests.bai.web.apps.lab import (
    HOST,
    OTHER,
    PAGES,
    PANEL,
    PROXY,
    UNKNOWN,
    AppLab,
    Browser,
    access,
    app_session,
    call,
    code_uri,
    cookie_names,
    each_cookie,
    token,
)
from tests.bai.web.lab import bearer

SCRIPT = {"Accept": "application/json"}


def bearing(who: str, **more: str) -> dict[str, str]:
    return {**bearer(token(who)), **SCRIPT, **more}


def test_a_login_leads_to_the_panel_and_back_to_where_one_wanted_to_go(shared_lab: AppLab) -> None:
    who = shared_lab.browser()
    asked = who.ask("/tree/a%20b?x=1&y=%2F")
    assert asked.status == 302 and asked.headers["cache-control"] == "no-store"
    assert asked.headers["referrer-policy"] == "no-referrer"
    to_login = who.to_panel(asked)
    assert to_login.status_code == 303 and to_login.headers["location"].startswith(
        "/login?next=%2Fapps%2Fopen"
    )
    said = {"Sec-Fetch-Site": "same-origin"}
    where = re.search(r'name="next" value="([^"]*)"', who.panel.get(to_login.headers["location"]).text)
    assert where is not None
    form = {"credential": token("operator-of-p"), "next": where[1].replace("&amp;", "&")}
    logged_in = who.panel.post("/login", data=form, headers=said)
    assert logged_in.status_code == 303
    page = who.panel.get(logged_in.headers["location"])
    assert page.headers["referrer-policy"] == "no-referrer" and page.headers["cache-control"] == "no-store"
    opened = who.ask(code_uri(page, HOST))
    assert (opened.status, opened.headers["location"]) == (302, "/tree/a%20b?x=1&y=%2F")
    assert opened.headers["cache-control"] == "no-store"
    [cookie] = each_cookie(opened)
    assert cookie.startswith("__Host-bai-app=") and "Domain" not in cookie
    assert {"HttpOnly", "Secure", "Path=/", "SameSite=lax"} <= set(cookie.split("; "))
    passed = who.ask("/tree")
    assert passed.headers["bai-upstream"] == f"unix//run/{kernel(shared_lab)}-8888.sock"
    assert passed.headers["bai-protocol"] == "http"


def kernel(lab: AppLab, host: str = HOST) -> str:
    found = lab.app.state.apps.at(host)
    assert found is not None and found.app is not None and found.app.kernel
    return str(found.app.kernel)


@pytest.mark.parametrize(
    ("who", "opens"),
    [
        ("operator-of-p", {"own", "shared"}),
        ("ada", {"own", "owned", "shared"}),
        ("ADA@lab.example", {"own", "owned", "shared"}),
        ("ours", {"shared"}),
        ("viewer", {"shared"}),
        ("admin", {"own", "shared", "zebra"}),
        ("of-q", {"zebra"}),
        ("eve", set()),
        ("nobody", set()),
    ],
)
def test_each_opens_by_a_token_or_a_login_what_is_theirs(
    shared_lab: AppLab, who: str, opens: set[str]
) -> None:
    hosts = {name: f"jupyter--{name}--{'q' if name == 'zebra' else 'p'}.apps.example"
             for name in ("own", "owned", "shared", "zebra", "open")}  # fmt: skip
    opens = opens | {"open"}
    by_token = {
        name for name, host in hosts.items() if shared_lab.ask(host=host, headers=bearing(who)).passed
    }
    assert by_token == opens
    browser = shared_lab.browser()
    browser.log_in(who)
    for name, host in hosts.items():
        told = browser.ask(host=host)
        if told.status == 302:
            answer = browser.to_panel(told)
            told = browser.ask(code_uri(answer, host), host) if answer.status_code == 200 else told
            told = browser.ask(host=host) if told.headers.get("location") == "/" else told
        assert told.passed == (name in opens), name


def test_an_app_gets_no_cookie_and_no_token_of_bais_and_all_else_byte_by_byte(shared_lab: AppLab) -> None:
    who = shared_lab.in_app("operator-of-p")
    ours = "; ".join(f"{name}={value}" for name, value in who.jar[HOST].items())
    assert {"__Host-bai-app", "__Host-bai-app-login"} == set(who.jar[HOST])
    said = f'_xsrf=2|a; {ours};  odd ="x y"; bai-app=1; last=\xe9'
    told = shared_lab.ask(headers=[("Cookie", said), ("Authorization", "token of-jupyter")])
    assert told.passed
    assert told.headers["bai-cookie"] == '_xsrf=2|a;  odd ="x y"; last=\xe9'
    assert told.headers["bai-authorization"] == "token of-jupyter"
    told = shared_lab.ask(headers=[("Cookie", ours), *bearing("operator-of-p").items()])
    assert told.passed and not {"bai-cookie", "bai-authorization"} & set(told.headers)
    own = shared_lab.ask(headers=[("Cookie", ours), ("Authorization", "Bearer sk-of-the-app")])
    assert own.headers["bai-authorization"] == "Bearer sk-of-the-app"


NAMES = st.sampled_from(
    [
        "a",
        "bai-apps",
        "__Host-bai-app",
        "bai-app",
        "__Host-bai-app-login",
        "bai",
        "__Host-bai",
        " bai-app ",
        "",
    ]
)
PAIRS = st.lists(st.tuples(NAMES, st.text(st.characters(codec="latin-1", exclude_characters=";\r\n,"))))


@given(PAIRS)
def test_of_cookies_an_app_gets_all_others_in_their_order(pairs: list[tuple[str, str]]) -> None:
    sent = ";".join(f"{name}={value}" for name, value in pairs).encode("latin-1")
    ours = {"__Host-bai-app", "bai-app", "__Host-bai-app-login", "bai", "__Host-bai"}
    kept = ";".join(f"{name}={value}" for name, value in pairs if name.strip(" \t") not in ours)
    found = without_ours([sent])
    assert found in (kept.encode("latin-1"), kept.encode("latin-1").strip(b" \t"))


def test_programs_and_parts_of_pages_are_told_to_log_in_and_led_nowhere(shared_lab: AppLab) -> None:
    for options in (
        {"headers": SCRIPT},
        {"headers": PAGES, "method": "POST"},
        {"headers": {**PAGES, "Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "navigate",
                     "Sec-Fetch-Dest": "iframe"}},
        {"headers": PAGES, "upgrade": "websocket"},
    ):  # fmt: skip
        for host in (HOST, UNKNOWN):
            told = shared_lab.ask(host=host, **options)  # type: ignore[arg-type]
            assert (told.status, told.headers["www-authenticate"]) == (401, "Bearer"), options
            assert not list(each_cookie(told))


def test_where_nobody_has_said_where_the_panel_is_nobody_is_led_in_circles(shared_lab: AppLab) -> None:
    gate = create_gate(shared_lab.hub, shared_lab.access, shared_lab.sealer, "", lambda app: "x")
    told = shared_lab.ask(gate=gate, headers=PAGES)
    assert told.status == 401 and "--public-url" in told.body and "location" not in told.headers
    assert shared_lab.ask(gate=gate, headers=bearing("ada")).passed


def test_an_address_that_is_long_leads_back_to_the_apps_first_page(shared_lab: AppLab) -> None:
    for uri, kept in (("/" + "a" * 300, True), ("/" + "a" * LONGEST_ONWARD, False), ("//evil.test/", False)):
        told = shared_lab.ask(uri, headers=PAGES)
        wanted = quote(f"https://{HOST}{uri if kept else '/'}", safe="")
        assert f"to={wanted}&" in told.headers["location"]


def test_what_does_not_run_is_waited_for_with_its_phase_and_reason(app_lab: AppLab) -> None:
    app_lab.write("large", app_session("large", cpu=64))
    app_lab.once()
    host = "jupyter--large--p.apps.example"
    told = app_lab.ask(host=host, headers={**bearing("operator-of-p"), **PAGES})
    assert (told.status, told.headers["retry-after"]) == (503, "5")
    assert '<meta http-equiv="refresh" content="5">' in told.body and "PENDING" in told.body
    assert "bai-upstream" not in told.headers
    told = app_lab.ask(host=host, headers=bearing("operator-of-p"))
    assert (told.status, told.headers["content-type"]) == (503, "application/json")
    assert told.detail.startswith("This app is not there yet: Its session is PENDING.")
    assert app_lab.ask(host=host, headers=bearing("ours")).status == 403
    assert app_lab.ask(host=host, headers=SCRIPT).status == 401


def test_why_one_waits_names_nothing_of_another_project(app_lab: AppLab) -> None:
    [cluster] = app_lab.hub.clusters.values()
    done = cluster.good
    assert done is not None and done.actual is not None
    own = done.actual.existing["Session/p/own"]
    waits = replace(own, phase="PENDING", reason="strict order: Session/q/zebra comes first")
    cluster.good = replace(
        done, actual=replace(done.actual, existing={**done.actual.existing, "Session/p/own": waits})
    )
    assert "zebra" not in app_lab.ask(headers=bearing("operator-of-p")).detail
    assert "comes first" in app_lab.ask(headers=bearing("operator-of-p")).detail
    assert "Session/q/zebra" in app_lab.ask(headers=bearing("admin")).detail


def test_an_app_that_does_not_answer_is_told_of_to_those_who_may_open_it(shared_lab: AppLab) -> None:
    told = shared_lab.ask(path="/unanswered", headers={**bearing("operator-of-p"), **PAGES})
    assert (told.status, told.headers["retry-after"]) == (503, "5")
    assert "Nothing answers on port 8888" in told.body and "refresh" in told.body
    assert shared_lab.ask(path="/unanswered", headers=SCRIPT).status == 401
    assert shared_lab.ask(path="/unanswered", headers=bearing("eve")).status == 404

    def nowhere(app: object) -> str:
        raise CannotRead(what="a tunnel", why="no way")

    gate = create_gate(shared_lab.hub, shared_lab.access, shared_lab.sealer, PANEL, nowhere)
    told = shared_lab.ask(gate=gate, headers=bearing("operator-of-p"))
    assert told.status == 503 and "8888" in told.detail and "no way" not in told.detail


def test_who_calls_by_grpc_is_answered_as_grpc_has_it(shared_lab: AppLab) -> None:
    """A login page would be of no use, and no page is sent."""
    said = {"Content-Type": "application/grpc+proto", "Accept": "text/html"}

    def code(who: str, host: str = HOST, path: str = "/check") -> str:
        headers = {**said, **(bearing(who) if who else {})}
        told = shared_lab.ask("/lab.Talk/Echo", host, method="POST", path=path, headers=headers)
        assert told.headers["content-type"] == "application/grpc" and not told.body and not told.cookies
        assert told.headers["grpc-message"]
        return told.headers["grpc-status"]

    assert code("") == "16" == code("no-token-of-anybody")
    assert code("nobody") == "7" == code("operator-of-p", OTHER)
    assert code("eve") == "5" == code("operator-of-p", UNKNOWN)
    assert code("operator-of-p", path="/unanswered") == "14"
    told = shared_lab.ask(method="POST", headers={**said, **bearing("operator-of-p")})
    assert told.passed and "grpc-status" not in told.headers


def test_certificates_are_for_apps_that_there_are(shared_lab: AppLab) -> None:
    answers = {
        name: call(shared_lab.gate, "/certificate", [], f"domain={name}").status
        for name in (HOST, HOST.upper(), UNKNOWN, "apps.example", f"x.{HOST}", "evil.test", "")
    }
    assert [name for name, status in answers.items() if status == 200] == [HOST, HOST.upper()]
    assert call(shared_lab.gate, "/certificate", []).status == 404
    assert call(shared_lab.gate, "/anything", []).status == 404


def test_who_leaves_is_logged_out_of_this_app(shared_lab: AppLab) -> None:
    who = shared_lab.in_app("operator-of-p")
    asked = who.ask("/.bai/leave")
    assert asked.status == 200 and 'action="/.bai/leave" method="post"' in asked.body
    assert who.ask().passed, "looking at it is not leaving"
    assert asked.headers["referrer-policy"] == "same-origin", "else its form would come from nowhere"
    own = {"Origin": f"https://{HOST}", "Sec-Fetch-Site": "same-origin", **PAGES}
    for origin in ("https://evil.test", "null"):
        assert (
            who.ask(
                "/.bai/leave", method="POST", headers={**own, "Origin": origin, "Sec-Fetch-Site": "same-site"}
            ).status
            == 403
        )
    assert who.ask("/.bai/leave", method="POST", headers=PAGES).status == 403
    gone = who.ask("/.bai/leave", method="POST", headers=own)
    assert gone.status == 200 and cookie_names(gone) == {"__Host-bai-app", "__Host-bai-app-login"}
    assert who.jar[HOST] == {} and who.ask().status == 302


def test_pages_of_the_gate_load_and_run_nothing(shared_lab: AppLab) -> None:
    who = shared_lab.in_app("ada")
    for told in (
        who.ask("/.bai/leave"),
        who.ask("/.bai/nothing"),
        shared_lab.ask(path="/unanswered", headers={**bearing("ada"), **PAGES}),
        shared_lab.ask(headers={**bearing("ours"), **PAGES}),
    ):
        policy = told.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
        assert "base-uri 'none'" in policy and "unsafe" not in policy
        assert told.headers["x-content-type-options"] == "nosniff"
        assert told.headers["cache-control"] == "no-store"
        assert "<script" not in told.body and "src=" not in told.body and "style=" not in told.body


def test_a_cookie_is_opened_once_however_often_it_comes(
    shared_lab: AppLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    who, opened, looked = shared_lab.in_app("operator-of-p"), [], []
    gate = shared_lab.new_gate()
    plain_open = SealedBox.open
    monkeypatch.setattr(SealedBox, "open", lambda box, text: opened.append(text) or plain_open(box, text))
    authenticators = type(shared_lab.access.authenticators[0])
    plain = authenticators.authenticate
    monkeypatch.setattr(authenticators, "authenticate", lambda *given: looked.append(1) or plain(*given))
    for _ in range(50):
        assert who.ask("/api", gate=gate).passed
    assert (len(opened), len(looked)) == (1, 1)


class ChangingAccess:
    """An access file that is read again."""

    def __init__(self, *, keep: StaticAccess) -> None:
        self.now = keep

    def __getattr__(self, name: str) -> object:
        return getattr(self.now, name)


@pytest.mark.parametrize("by", ["token", "cookie"])
def test_a_token_that_is_taken_back_ends_at_once(shared_lab: AppLab, by: str) -> None:
    changing = ChangingAccess(keep=shared_lab.access)  # type: ignore[arg-type]
    gate = create_gate(shared_lab.hub, changing, shared_lab.sealer, PANEL, lambda app: "x")  # type: ignore[arg-type]
    who = shared_lab.in_app("operator-of-p") if by == "cookie" else Browser(shared_lab)
    said = SCRIPT if by == "cookie" else bearing("operator-of-p")
    assert who.ask(gate=gate, headers=said).passed
    changing.now = access(**{"operator-of-p": ()})
    assert who.ask(gate=gate, headers=said).status == 403
    changing.now = StaticAccess()
    assert who.ask(gate=gate, headers=said).status == 401
    changing.now = shared_lab.access  # type: ignore[assignment]
    assert who.ask(gate=gate, headers=said).passed


def with_provider(lab: AppLab, *grants: Grant, session: float = 3600.0) -> StaticAccess:
    """As `lab` has it, and an identity provider."""
    rules = TokenRules("https://login.example", ["bai"], frozenset({"RS256"}), 60.0, "sub", "groups")
    judge = OidcAuthenticator(rules, IssuerKeys("https://login.example"), Grants(grants))
    client = OidcClient("https://login.example", "bai", session=session)
    return StaticAccess([*lab.access.authenticators, judge], oidc_clients=[client])


def test_who_is_logged_in_at_a_provider_opens_apps_as_long_as_that_counts(
    app_lab: AppLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    operators = Grant(Role.operator, groups=frozenset({"ops"}), projects=frozenset({"p"}))
    changing = ChangingAccess(keep=with_provider(app_lab, operators))
    app_lab.app.state.access = changing
    clock = [time.time()]
    gate = create_gate(
        app_lab.hub,
        changing,
        app_lab.sealer,
        PANEL,
        lambda app: "x",
        clock=lambda: clock[0],  # type: ignore[arg-type]
    )
    [provider] = login_providers(changing)  # type: ignore[arg-type]
    kept = seal_identity(app_lab.sealer, provider, Identity("kim", frozenset({"ops", "tea"})))
    clock[0] = time.time()  # Not before the login, which counts from now on.
    who = app_lab.browser()
    who.panel.cookies.set("__Host-bai", kept, domain="panel.test")
    assert who.open(gate=gate).passed
    clock[0] += 3601
    assert who.ask(gate=gate, headers=SCRIPT).status == 401, "it lasts as long as at the panel"
    clock[0] -= 3601
    with monkeypatch.context() as patch:
        patch.setattr(kept_identity, "time", SimpleNamespace(time=lambda: clock[0]))
        changing.now = with_provider(app_lab, operators, session=60.0)
        assert who.ask(gate=gate, headers=SCRIPT).passed
        clock[0] += 61
        assert who.ask(gate=gate, headers=SCRIPT).status == 401, "and as the file says now"
        clock[0] -= 61
    changing.now = with_provider(app_lab, Grant(Role.viewer, groups=frozenset({"ops"})))
    assert who.ask(gate=gate, headers=SCRIPT).status == 403, "roles are those of now"
    changing.now = with_provider(app_lab)
    assert who.ask(gate=gate, headers=SCRIPT).status == 403
    changing.now = app_lab.access  # type: ignore[assignment]
    assert who.ask(gate=gate, headers=SCRIPT).status == 401, "the provider counts no more"


def test_whom_a_proxy_names_at_the_panel_opens_apps_and_at_apps_nobody_is_named(app_lab: AppLab) -> None:
    grants = Grants([Grant(Role.operator, users=frozenset({"kim"}))])
    everywhere = [ipaddress.ip_network("0.0.0.0/0")]
    proxy = ProxyAuthenticator(everywhere, "x-forwarded-user", "x-forwarded-groups", grants)
    named = StaticAccess([*app_lab.access.authenticators, proxy])
    app_lab.app.state.access = named
    gate = create_gate(app_lab.hub, named, app_lab.sealer, PANEL, lambda app: "x")
    who = app_lab.browser()
    begun = who.ask(gate=gate)
    where = begun.headers["location"].removeprefix(PANEL)
    who.panel = who.panel.__class__(
        app_lab.app, base_url=PANEL, follow_redirects=False, client=("192.0.2.1", 5)
    )
    answer = who.panel.get(where, headers={"X-Forwarded-User": "kim"})
    assert answer.status_code == 200, answer.text
    assert who.ask(code_uri(answer, HOST), gate=gate).status == 302
    assert who.ask(gate=gate).passed
    assert app_lab.ask(gate=gate, headers={"X-Forwarded-User": "kim", **SCRIPT}).status == 401
    later = create_gate(
        app_lab.hub, named, app_lab.sealer, PANEL, lambda app: "x", clock=lambda: time.time() + 3601
    )
    assert who.ask(gate=later, headers=SCRIPT).status == 401


def test_where_everybody_may_look_apps_are_opened_by_somebody(app_lab: AppLab) -> None:
    named = StaticAccess([*app_lab.access.authenticators, AnonymousAuthenticator(Role.admin)])
    app_lab.app.state.access = named
    gate = create_gate(app_lab.hub, named, app_lab.sealer, PANEL, lambda app: "x")
    who = app_lab.browser()
    for host in (HOST, "jupyter--shared--p.apps.example"):
        assert app_lab.ask(gate=gate, host=host, headers=SCRIPT).status == 401
        answer = who.to_panel(who.ask(gate=gate, host=host))
        assert answer.headers["location"].startswith("/login?next=")
    who.log_in("operator-of-p")
    assert who.open().passed


def test_an_app_cookie_lasts_no_longer_than_the_panels(shared_lab: AppLab) -> None:
    who = shared_lab.in_app("ada")
    cookies = AppCookies(shared_lab.sealer)
    login = cookies.open(HOST, who.jar[HOST]["__Host-bai-app"])
    assert login is not None and (login.kind, list(login.value)) == ("token", [token("ada")])
    at = shared_lab.sealer.sealed_at(who.panel.cookies["__Host-bai"])
    assert login.until == at + 12 * 3600
    later = create_gate(
        shared_lab.hub, shared_lab.access, shared_lab.sealer, PANEL, lambda app: "x",
        clock=lambda: login.until,
    )  # fmt: skip
    assert who.ask(gate=later, headers=SCRIPT).status == 401


def test_a_proxy_that_speaks_http_sets_cookies_that_browsers_take(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    lab = AppLab(
        tmp_path_factory.mktemp("plain"),
        proxy=PROXY.replace("https://*.apps.example", "http://*.apps.example:8000"),
    )
    assert lab.once(), lab.lines
    host = f"{HOST}:8000"
    told = lab.ask(host=host, headers=PAGES)
    assert told.status == 302 and "to=http%3A%2F%2Fjupyter" in told.headers["location"]
    [cookie] = each_cookie(told)
    assert cookie.startswith("bai-app-login=") and "Secure" not in cookie
    assert lab.ask(host=HOST, headers=PAGES).status == 404, "another port is another address"
    lab.close()


def test_replicas_with_one_key_know_each_others_logins_and_no_others(app_lab: AppLab) -> None:
    who = app_lab.in_app("operator-of-p")
    assert who.ask(gate=app_lab.new_gate()).passed
    other = create_gate(app_lab.hub, app_lab.access, CookieSealer("x" * 32), PANEL, lambda app: "x")
    assert who.ask(gate=other, headers=SCRIPT).status == 401


def test_no_document_makes_an_app_more_open_than_its_proxy_allows(app_lab: AppLab) -> None:
    """Documents that say so are refused; and where one came through, it counts for what is allowed."""
    public = "jupyter--open--p.apps.example"
    assert app_lab.ask(host=public, headers=SCRIPT).passed
    [cluster] = app_lab.hub.clusters.values()
    done = cluster.good
    assert done is not None and done.desired is not None
    narrow = PROXY.replace("widest: public", "widest: project")
    app_lab.write("proxy", narrow)
    app_lab.write("open", app_session("open", who="project"))
    app_lab.once()
    assert cluster.good is not None and cluster.good.desired is not None
    repository = cluster.good.desired.repository
    cluster.good = replace(done, desired=replace(done.desired, repository=repository))
    assert app_lab.ask(host=public, headers=SCRIPT).status == 401
    assert app_lab.ask(host=public, headers=bearing("ours")).passed


def test_before_there_is_a_pass_no_address_is_an_apps(tmp_path_factory: pytest.TempPathFactory) -> None:
    lab = AppLab(tmp_path_factory.mktemp("early"))
    assert lab.ask(headers=PAGES).status == 404
    assert lab.once(), lab.lines
    assert lab.ask(headers=PAGES).status == 302
    lab.drop("proxy")
    lab.close()


class KnownKeys(IssuerKeys):
    """Those of a provider that was asked already."""

    def __init__(self, key: rsa.RSAPrivateKey) -> None:
        super().__init__("https://login.example")
        self._key = jwt.PyJWK.from_json(jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key()), "RS256")
        self.asked, self.good = 0, True

    def candidates(self, kid: str | None, algorithm: str) -> list[jwt.PyJWK]:
        self.asked += 1
        return [self._key] if self.good else []


def test_signed_tokens_open_apps_are_checked_now_and_then_and_reach_none(app_lab: AppLab) -> None:
    key = rsa.generate_private_key(65537, 2048)
    rules = TokenRules("https://login.example", ["bai"], frozenset({"RS256"}), 0.0, "sub", "groups")
    keys = KnownKeys(key)
    clock = [time.time()]
    grants = Grants([Grant(Role.operator, users=frozenset({"kim"}))])
    judge = OidcAuthenticator(rules, keys, grants, clock=lambda: clock[0])
    named = StaticAccess([*app_lab.access.authenticators, judge])
    app_lab.app.state.access = named
    gate = create_gate(app_lab.hub, named, app_lab.sealer, PANEL, lambda app: "x")

    def signed(seconds: float, issuer: str = "https://login.example") -> str:
        claims = {"iss": issuer, "aud": "bai", "sub": "kim", "exp": int(time.time() + seconds)}
        return jwt.encode(claims, key, algorithm="RS256")

    good, over, others = signed(600), signed(-600), signed(600, "https://other.example")
    for _ in range(20):
        told = app_lab.ask(gate=gate, headers={**bearer(good), **SCRIPT})
        assert told.passed and "bai-authorization" not in told.headers
    assert keys.asked == 1
    who = app_lab.browser()
    said = {"Sec-Fetch-Site": "same-origin"}
    assert who.panel.post("/login", data={"credential": good}, headers=said).status_code == 303
    assert who.open(gate=gate).passed
    held = {"Cookie": f"__Host-bai-app={who.jar[HOST]['__Host-bai-app']}"}
    told = app_lab.ask(gate=gate, headers={**held, **bearer(over)})
    assert (told.status, "bai-authorization" in told.headers) == (401, False)
    told = app_lab.ask(gate=gate, headers={**held, **bearer(others)})
    assert told.headers["bai-authorization"] == f"Bearer {others}", "it is the app's own"
    assert app_lab.ask(gate=gate, headers=bearer(others)).status == 401
    keys.good = False
    assert app_lab.ask(gate=gate, headers=held).passed, "it was checked a moment ago"
    clock[0] += CACHE_LIFETIME
    assert app_lab.ask(gate=gate, headers=held).status == 401
    assert app_lab.ask(gate=gate, headers=bearer(good)).status == 401
