"""Logging in at identity providers in a real browser: the one of the tests, and a real Keycloak."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from playwright.sync_api import Page, expect

from bai.web.auth import oidc
from bai.web.auth.access_file import WatchedAccessFile
from tests.bai.web.browser.site import Shots, Visit
from tests.bai.web.browser.test_looks import VIEWS, is_too_wide, violations
from tests.bai.web.lab import PATIENCE, Lab, serving
from tests.bai.web.panel.rendering import HOSTILE, SECRET, two_projects
from tests.lab.browser import Chromium
from tests.lab.identity_provider import IdentityProviderLab
from tests.lab.keycloak import CONFIDENTIAL, PUBLIC, Keycloak
from tests.lab.keycloak import SECRET as CLIENT_SECRET

pytestmark = pytest.mark.xdist_group("browser")
ASKED = "/clusters/here/queue?project=p"
GRANTS = [
    {"role": "viewer", "groups": ["vision"], "projects": ["p"]},
    {"role": "admin", "groups": ["admins"]},
]


@dataclass
class Panel:
    """A panel that believes one provider, in a browser."""

    address: str
    chromium: Chromium

    def visit(self, **options: Any) -> Visit:
        return Visit(self.chromium.page(**options), self.address)

    def problems(self, visit: Visit) -> list[str]:
        """What went wrong on pages of ours."""
        return [each for each in visit.problems if self.address in each]


@contextlib.contextmanager
def panel(folder: Path, chromium: Chromium, issuer: str, client: str, **more: str) -> Iterator[Panel]:
    entry = {
        "issuer": issuer, "audience": client, "clientId": client, "user": "email", "grants": GRANTS, **more,
    }  # fmt: skip
    file = folder / "access.yaml"
    file.write_text(yaml.safe_dump({"oidc": [entry]}))
    lab = Lab(folder, access=WatchedAccessFile(file, print))
    two_projects(lab)
    port = int(issuer.split(":")[2].partition("/")[0])
    with (
        pytest.MonkeyPatch.context() as patch,
        chromium.reaching(port),
        serving(lab.app, chromium.listening()) as address,
    ):
        patch.setattr(oidc, "FETCH_TIMEOUT", PATIENCE)
        yield Panel(address, chromium)
    lab.close()


@pytest.fixture
def provider() -> Iterator[IdentityProviderLab]:
    made = IdentityProviderLab()
    made.browsers.users.update(
        ada={"email": "ada@lab.example", "groups": ["vision"]},
        grace={"email": "grace@lab.example", "groups": ["admins"]},
    )
    yield made
    made.close()


@pytest.fixture
def own(tmp_path: Path, chromium: Chromium, provider: IdentityProviderLab) -> Iterator[Panel]:
    with panel(tmp_path, chromium, provider.issuer, provider.client_id) as made:
        yield made


def says_who(page: Page, name: str) -> None:
    """At the provider of the tests."""
    page.get_by_label("User").fill(name)
    page.get_by_role("button", name="Go on").click()


def walk(at: Panel, say_who: Callable[[Page, str], None], leave: Callable[[Page], None]) -> None:
    """In one browser: ada and then grace, each to the page that they asked for and out again, at both."""
    visit = at.visit()
    page = visit.page
    for name, role in (("ada", "viewer of p"), ("grace", "admin")):
        visit.go(ASKED)
        assert "/login?next=" in page.url
        page.get_by_role("link", name="Log in at").click()
        say_who(page, name)
        page.wait_for_url(at.address + ASKED)
        expect(page.locator(".who .user")).to_have_text(f"{name}@lab.example")
        expect(page.locator(".who .role")).to_have_text(role)
        visit.waits_for_news()
        visit.go("/clusters/here/sessions")
        assert (SECRET in page.content()) == (name == "grace")
        [cookie] = [each for each in page.context.cookies() if each.get("name") == "bai"]
        assert cookie.get("httpOnly") and cookie.get("sameSite") == "Lax"
        assert page.evaluate("document.cookie") == ""
        page.get_by_role("button", name="Log out").click()
        leave(page)
        page.wait_for_url(f"{at.address}/login")
        assert visit.go("/clusters/here/queue") == 200
        assert "/login?next=" in page.url
    assert at.problems(visit) == []
    page.context.close()


def test_at_the_provider_of_the_tests(own: Panel, provider: IdentityProviderLab) -> None:
    def leave(page: Page) -> None:
        page.get_by_role("heading", name=f"Log out of {provider.client_id}?").wait_for()
        page.get_by_role("button", name="Log out").click()

    walk(own, says_who, leave)
    assert [each["client_id"] for each in provider.browsers.ended] == [provider.client_id] * 2


@pytest.mark.parametrize("client", [PUBLIC, CONFIDENTIAL])
def test_at_a_keycloak(tmp_path: Path, chromium: Chromium, keycloak: Keycloak, client: str) -> None:
    def say_who(page: Page, name: str) -> None:
        page.get_by_label("Username or email").fill(name)
        page.get_by_label("Password", exact=True).fill(f"word-of-{name}")
        page.get_by_role("button", name="Sign In").click()

    def leave(page: Page) -> None:
        page.get_by_text("Do you want to log out?").wait_for()
        page.get_by_role("button", name="Logout").click()

    secret = tmp_path / "secret"
    secret.write_text(CLIENT_SECRET)
    more = {"clientSecret": f"file:{secret}"} if client == CONFIDENTIAL else {}
    with panel(tmp_path, chromium, keycloak.issuer, client, **more) as at:
        walk(at, say_who, leave)


def test_two_tabs_log_in_at_once_and_each_lands_where_it_wanted(own: Panel) -> None:
    visit = own.visit()
    first, second = visit.page, visit.page.context.new_page()
    for page, where in ((first, "nodes"), (second, "sessions")):
        page.goto(f"{own.address}/clusters/here/{where}")
        page.get_by_role("link", name="Log in at").click()
        page.get_by_label("User").wait_for()
    for page, where in ((second, "sessions"), (first, "nodes")):
        says_who(page, "ada")
        page.wait_for_url(f"{own.address}/clusters/here/{where}")
    assert own.problems(visit) == []
    first.context.close()


def test_a_link_that_somebody_else_has_begun_logs_nobody_in(own: Panel) -> None:
    attacker, victim = own.visit(), own.visit()
    attacker.page.route("**/login/oidc/callback*", lambda route: route.abort())
    attacker.go("/login/oidc/0")
    with attacker.page.expect_request("**/login/oidc/callback*") as held:
        says_who(attacker.page, "grace")
    victim.page.goto(held.value.url)
    expect(victim.page.get_by_role("alert")).to_contain_text("begun in another browser")
    assert victim.page.context.cookies() == []
    attacker.page.context.close()
    victim.page.context.close()


def test_pages_of_a_login_can_be_read_by_everybody(
    own: Panel, provider: IdentityProviderLab, shots: Shots
) -> None:
    provider.browsers.errors["mallory"] = {"error": "access_denied", "error_description": HOSTILE}
    visit = own.visit(reduced_motion="reduce")
    page, wrong = visit.page, []
    for name in ("offered", "refused"):
        visit.go("/login?ended=1")
        if name == "refused":
            page.get_by_role("link", name="Log in at").click()
            says_who(page, "mallory")
            expect(page.get_by_role("alert")).to_contain_text(re.compile("says: <img src=x"))
        for view, scheme, size, rules in VIEWS:
            page.emulate_media(color_scheme=scheme)
            page.set_viewport_size(size)
            shots.take(page, f"login-{name}-{view}")
            wrong += [f"{name} {view}: {each}" for each in violations(page, **rules)]
            assert not is_too_wide(page), (name, view)
    assert not wrong, "\n".join(wrong)
    page.context.close()
