"""Apps by ports of one host at the gate: which app it is, whose cookies count, which pages are another's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from bai.web.apps.app_cookies import of_port
from tests.bai.web.apps.lab import NAVIGATION, PAGES, PROXY, AppLab, Browser, Told, cookie_names, each_cookie

HOST = "gpu.example"
BY_PORT = PROXY.replace(
    'url: "https://*.apps.example"', "ports: {host: gpu.example, http: 30000-30009, tcp: 31000-31009}"
)
NUMBERS = {"open": 30000, "own": 30001, "owned": 30002, "shared": 30003, "zebra": 30004}
"""In order of their names."""


class PortBrowser(Browser):
    """Sends all cookies of a host to all its ports, as browsers do."""

    def ask(self, uri: str = "/", host: str = HOST, **options: Any) -> Told:
        name, _, port = host.partition(":")
        said = dict(options.pop("headers", {**NAVIGATION, **PAGES}))
        held = "; ".join(f"{key}={value}" for key, value in self.jar.get(name, {}).items())
        said |= {"Bai-Port": port, **({"Cookie": held} if held else {})}
        told = self.lab.ask(uri, host, headers=said, **options)
        kept = {**self.jar.get(name, {}), **told.cookies}
        self.jar[name] = {key: value for key, value in kept.items() if value}
        return told


def at(session: str) -> str:
    return f"{HOST}:{NUMBERS[session]}"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppLab]:
    made = AppLab(tmp_path_factory.mktemp("lab"), proxy=BY_PORT)
    assert made.once(), made.lines
    made.once()
    yield made
    made.close()


def logged_in(lab: AppLab, who: str, *sessions: str) -> PortBrowser:
    made = PortBrowser(lab)
    made.log_in(who)
    for each in sessions:
        assert made.open(at(each)).passed
    return made


def test_the_port_says_which_app_it_is_and_the_host_must_agree(lab: AppLab) -> None:
    def told(port: str, host: str) -> Told:
        return lab.ask(host=host, headers={"Bai-Port": port, "Authorization": "Bearer bai_operator"})

    passed = told("30003", "gpu.example:30003")
    assert passed.passed and "shared" in passed.headers["bai-upstream"]
    for host in ("gpu.example:30002", "gpu.example", "evil.example:30003", "jupyter--shared--p.apps.example"):
        assert told("30003", host).status == 421, host
    assert told("30009", "gpu.example:30009").status == 404, "a port that no app has"
    assert told("31000", "gpu.example:31000").status == 421, "one of raw TCP"
    assert told("", "gpu.example:30003").status == 404, "no app has that name"
    assert told("x", "gpu.example:30003").status == 400


def test_a_login_is_for_one_port(lab: AppLab) -> None:
    browser = logged_in(lab, "operator", "own")
    assert cookie_names(browser.ask("/.bai/leave", at("own"), method="POST", headers={
        "Origin": f"https://{at('own')}", "Sec-Fetch-Site": "same-origin"})) == {
        "__Host-bai-app-30001", "__Host-bai-app-login-30001"}  # fmt: skip
    browser = logged_in(lab, "operator", "own")
    assert browser.ask("/", at("shared")).status == 302, "it has to log in there as well"
    stolen = browser.jar[HOST]["__Host-bai-app-30001"]
    browser.jar[HOST]["__Host-bai-app-30003"] = stolen
    assert browser.ask("/", at("shared")).status == 302, "sealed for another port"
    browser.jar[HOST]["__Host-bai-app"] = stolen
    assert browser.ask("/", at("own")).passed and browser.ask("/", at("shared")).status == 302


def test_an_app_gets_the_cookies_of_its_port_as_it_has_named_them(lab: AppLab) -> None:
    browser = logged_in(lab, "operator", "own", "shared")
    browser.jar[HOST] |= {
        "p30001-sid": "mine", "p30003-sid": "others", "p30001-__Host-x": "1", "sid": "nobodys",
        "__Host-bai-login": "panel", "P30001-a": "case",
    }  # fmt: skip
    assert browser.ask("/", at("own")).headers["bai-cookie"] == "sid=mine; __Host-x=1"
    assert browser.ask("/", at("shared")).headers["bai-cookie"] == "sid=others"


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ([b"p30001-a=1; p30002-a=2", b"p30001-b=x=y"], b"a=1; b=x=y"),
        ([b"p30001-", b"p30001-=p30002-a=1"], b"=p30002-a=1"),
        ([b"a=p30001-b=1;;  p30001-c=2 ;"], b"c=2"),
        ([b"__Host-bai-app-30001=sealed; bai-app-30001=s"], b""),
        ([], b""),
    ],
)
def test_cookies_of_a_port(sent: list[bytes], kept: bytes) -> None:
    assert of_port(sent, 30001) == kept


@pytest.mark.parametrize("site", ["same-site", "cross-site"])
@pytest.mark.parametrize(
    "said",
    [
        {"Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"},
        {"Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"},
        {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"},
    ],
)
def test_a_page_of_another_port_asks_for_nothing(lab: AppLab, site: str, said: dict[str, str]) -> None:
    """To a browser, all ports of a host are one site."""
    browser = logged_in(lab, "operator", "own")
    origin = f"https://{at('shared')}"
    told = browser.ask("/", at("own"), headers={**said, "Sec-Fetch-Site": site, "Origin": origin})
    assert told.status == 403
    told = browser.ask("/", at("own"), headers={**said, "Sec-Fetch-Site": site})
    assert told.status == 403
    told = browser.ask("/", at("own"), headers={"Origin": origin}, method="POST")
    assert told.status == 403


def test_a_page_of_another_port_opens_no_websocket(lab: AppLab) -> None:
    browser = logged_in(lab, "operator", "own")
    for said, passes in (
        ({"Origin": f"https://{at('shared')}", "Sec-Fetch-Site": "same-site"}, False),
        ({"Origin": f"https://{at('shared')}"}, False),
        ({"Origin": f"https://{at('own')}", "Sec-Fetch-Site": "same-origin"}, True),
    ):
        assert browser.ask("/ws", at("own"), headers=said, upgrade="websocket").passed is passes, said


def test_a_link_of_another_page_leads_to_an_app(lab: AppLab) -> None:
    browser = logged_in(lab, "operator", "own")
    said = {**NAVIGATION, **PAGES, "Sec-Fetch-Site": "same-site"}
    assert browser.ask("/", at("own"), headers=said).passed


def test_who_may_not_open_it_may_not_by_its_port(lab: AppLab) -> None:
    assert logged_in(lab, "ada", "owned").ask("/", at("owned")).passed
    browser = PortBrowser(lab)
    browser.log_in("eve")
    answer = browser.to_panel(browser.ask("/", at("own")))
    assert answer.status_code == 404
    assert PortBrowser(lab).ask("/", at("open")).passed, "it is public"


def test_the_panel_leads_to_ports_of_apps_alone(lab: AppLab) -> None:
    browser = PortBrowser(lab)
    browser.log_in("operator")
    for address in ("https://gpu.example:30009/", "https://gpu.example:8443/", "https://evil.example:30001/"):
        query = {"to": address, "browser": "x" * 43}
        assert browser.panel.get("/apps/open", params=query).status_code == 404, address


def test_cookies_of_ours_say_their_port(lab: AppLab) -> None:
    browser = PortBrowser(lab)
    told = browser.ask("/", at("own"))
    (cookie,) = each_cookie(told)
    assert cookie.startswith("__Host-bai-app-login-30001=") and "HttpOnly" in cookie and "Secure" in cookie


def test_there_is_a_certificate_for_the_host(lab: AppLab) -> None:
    assert lab.gate._table.has("gpu.example") and not lab.gate._table.has("other.example")
