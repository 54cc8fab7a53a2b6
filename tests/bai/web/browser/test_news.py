"""A page that is open while something changes."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Route, expect

from tests.bai.web.browser.site import Site, Visit
from tests.bai.web.lab import Lab, serving
from tests.lab.browser import Chromium
from tests.reconciler.lab import session

pytestmark = pytest.mark.xdist_group("browser")


def test_what_is_new_comes_by_itself_and_nothing_moves(own_site: Site) -> None:
    visit = own_site.visit("viewer", viewport={"width": 1000, "height": 300})
    page = visit.page
    visit.in_cluster("sessions")
    visit.waits_for_news()
    expect(page.locator("#live")).to_have_text("live")
    page.evaluate("window.isSame = true")
    page.get_by_label("Name").fill("half a wor")
    page.locator("h1").click()
    for key in "jj":
        page.keyboard.press(key)
    page.evaluate("scrollTo(0, 120)")
    before = page.evaluate("[scrollY, document.activeElement.href]")
    assert before[0] > 0 and "/sessions/" in before[1]
    own_site.lab.write("zz", session("zz-later"))
    assert own_site.lab.once(), own_site.lab.lines
    expect(page.get_by_role("link", name="p/zz-later", exact=True)).to_be_visible()
    assert page.evaluate("[scrollY, document.activeElement.href]") == before
    expect(page.get_by_label("Name")).to_have_value("half a wor")
    own_site.lab.drop("zz")
    assert own_site.lab.once(), own_site.lab.lines
    own_site.lab.once()
    expect(page.get_by_role("link", name="p/zz-later", exact=True)).to_have_count(0)
    assert page.evaluate("window.isSame")
    assert not visit.problems
    page.context.close()


def test_what_changed_while_a_page_came_is_not_missed(own_site: Site) -> None:
    visit = own_site.visit("viewer")
    page = visit.page

    def hold(route: Route) -> None:
        own_site.lab.write("zz", session("zz-later"))
        assert own_site.lab.once(), own_site.lab.lines
        route.continue_()

    page.route("**/live*", hold, times=1)
    visit.in_cluster("sessions")
    expect(page.get_by_role("link", name="p/zz-later", exact=True)).to_be_visible()
    assert not visit.problems
    page.context.close()


def test_a_page_says_that_its_server_is_gone(tmp_path: Path, chromium: Chromium) -> None:
    lab = Lab(tmp_path)
    lab.once()
    with serving(lab.app, chromium.listening()) as address:
        visit = Visit(chromium.page(), address)
        visit.log_in("viewer")
        visit.waits_for_news()
        expect(visit.page.locator("#live")).to_have_text("live")
    expect(visit.page.locator("#live")).to_have_text("no contact")
    visit.page.context.close()
    lab.close()


def test_a_login_that_has_ended_is_asked_for_again(own_site: Site) -> None:
    visit = own_site.visit("viewer")
    page = visit.page
    visit.in_cluster("sessions")
    visit.waits_for_news()
    page.context.clear_cookies()
    own_site.lab.write("zz", session("zz-later"))
    assert own_site.lab.once(), own_site.lab.lines
    page.wait_for_url("**/login?next=*sessions*")
    page.context.close()
