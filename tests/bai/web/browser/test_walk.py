"""A visitor goes from page to page, with a pointer, with keys, and without scripts."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.bai.web.browser.site import Site, Visit
from tests.bai.web.panel.rendering import HOSTILE, SECRET

pytestmark = pytest.mark.xdist_group("browser")
NAV = "nav a[data-key]"


def focused(page: Page) -> Any:
    """The address that the focused link leads to."""
    return page.evaluate("document.activeElement.getAttribute('href')")


def nav_of(page: Page) -> list[tuple[str, str, str]]:
    """Label, address and key of each."""
    found = page.locator(NAV).evaluate_all(
        "all => all.map(each => [each.firstChild.data, each.href, each.dataset.key])"
    )
    return [(label, href, key) for label, href, key in found]


def test_a_visitor_logs_in_walks_every_page_and_logs_out(site: Site) -> None:
    visit = site.visit()
    page = visit.page
    visit.in_cluster("queue?project=p")
    assert "/login?next=" in page.url
    visit.type_token("viewer")
    page.wait_for_url(f"{site.address}/clusters/here/queue?project=p")
    pages = nav_of(page)
    assert len(pages) >= 11
    for label, href, _ in pages:
        page.locator(".nav").get_by_role("link", name=label, exact=True).click()
        page.wait_for_url(href)
        expect(page.locator("h1")).to_have_count(1)
        expect(page.locator(".nav [aria-current=page]")).to_have_attribute(
            "href", href.removeprefix(site.address)
        )
        if label != "New session":  # It has no news: what somebody types there is not replaced.
            visit.waits_for_news()
    page.get_by_role("button", name="Log out").click()
    page.wait_for_url(f"{site.address}/login")
    visit.in_cluster("queue")
    assert "/login?next=" in page.url
    assert not visit.problems
    page.context.close()


def test_a_token_that_nobody_has_is_refused_in_words(site: Site) -> None:
    visit = site.visit()
    visit.go("/login")
    visit.type_token("nobody")
    expect(visit.page.get_by_role("alert")).not_to_be_empty()
    expect(visit.page.get_by_label("Token")).to_have_attribute("aria-invalid", "true")
    visit.page.context.close()


def test_keys_lead_to_every_page_and_row(site: Site) -> None:
    visit = site.visit("viewer")
    page = visit.page
    first, *others = nav_of(page)
    for _, href, key in [*others, first]:
        visit.go_by_key(key)
        page.wait_for_url(href)
    visit.go_by_key("s")
    page.wait_for_url("**/sessions")
    rows = page.locator("main tbody tr a").evaluate_all("all => all.map(each => each.getAttribute('href'))")
    for key, expected in (("j", 0), ("j", 1), ("k", 0), ("j", 1)):
        page.keyboard.press(key)
        assert focused(page) == rows[expected]
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.keyboard.press("j")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert focused(page) == rows[1]
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{rows[1]}")
    page.keyboard.press("/")
    expect(page.get_by_label("Search sessions")).to_be_focused()
    page.keyboard.type("gj?")
    page.keyboard.press("Escape")
    expect(page.get_by_label("Search sessions")).not_to_be_focused()
    page.keyboard.press("/")
    page.get_by_label("Search sessions").fill("waiting")
    page.keyboard.press("Enter")
    page.wait_for_url("**/sessions?q=waiting")
    expect(page.locator("main tbody tr")).to_have_count(1)
    assert not visit.problems
    page.context.close()


def test_from_the_list_to_why_a_session_waits_and_from_the_map_to_one_that_runs(site: Site) -> None:
    visit = site.visit("viewer")
    page = visit.page
    visit.in_cluster("sessions")
    page.get_by_role("link", name="p/waiting", exact=True).click()
    expect(page.get_by_role("heading", name=re.compile("Why it waits"))).to_be_visible()
    expect(page.locator(".reasons li").first).not_to_be_empty()
    page.get_by_role("link", name="Explain in full").click()
    page.wait_for_url("**explain=1*")
    visit.go_by_key("c")
    page.locator(".map a.node").first.click()
    page.wait_for_url("**/nodes/n1")
    page.locator("main tbody tr a").first.click()
    expect(page.get_by_role("heading", name="Placement")).to_be_visible()
    page.locator(".machine a.cell").first.click()
    page.wait_for_url("**/sessions/**")
    assert not visit.problems
    page.context.close()


def test_logs_go_on_by_themselves_and_stay_text(own_site: Site) -> None:
    own_site.logs.say("Session/p/own", b"first\n", HOSTILE.encode() + b"\n", b"\x1b[31mred\x1b[0m\n")
    visit = own_site.visit("viewer")
    page = visit.page
    visit.in_cluster("sessions/p/own/logs")
    lines = page.locator(".log-lines > span")
    expect(lines).to_have_count(3)
    page.evaluate("window.isSame = true")
    own_site.logs.say("Session/p/own", b"later <b>on</b>\n")
    expect(lines).to_have_count(4)
    assert lines.all_text_contents() == [
        "first",
        "<img src=x onerror=alert(1)>\"'\\u202e{{ 7777 * 7777 }}",
        "red",
        "later <b>on</b>",
    ]
    assert page.locator(".log-lines :is(img, b)").count() == 0
    page.get_by_label("Find in the log").fill("ER")
    expect(page.locator(".log-lines .hit")).to_have_count(2)
    own_site.logs.say("Session/p/own", b"number three\n")
    expect(page.locator(".log-lines .hit")).to_have_count(3)
    assert page.evaluate("window.isSame")
    assert not visit.problems
    page.context.close()


def own_pages(visit: Visit) -> list[str]:
    """Each page that a visitor of the project `p` may see, as the browser has it."""
    more = (
        "nodes/n1", "nodes/n2", "sessions/p/own", "sessions/p/own?explain=1", "sessions/p/own/logs",
        "sessions/p/waiting?explain=1", "resources/Project/p", "usage?by=session", "usage?by=user",
    )  # fmt: skip
    found = []
    for address in [
        *(href.removeprefix(visit.address) for _, href, _ in nav_of(visit.page)),
        *(f"/clusters/here/{each}" for each in more),
    ]:
        assert visit.go(address) == 200, address
        if address.endswith("/new"):  # It has no news: what somebody types there is not replaced.
            expect(visit.page.locator("#preview")).to_contain_text("Give it a name")
        else:
            visit.waits_for_news()
        found.append(visit.page.content())
    return found


def test_who_sees_one_project_sees_nothing_of_the_other(site: Site) -> None:
    visit = site.visit("ours")
    pages = own_pages(visit)
    assert len(pages) >= 18
    assert not visit.problems
    for refused, status in (
        ("plan", 403),
        ("history", 403),
        ("review", 403),
        (f"sessions/{SECRET}/{SECRET}-run", 404),
        (f"sessions/{SECRET}/{SECRET}-run/logs", 404),
    ):
        assert visit.in_cluster(refused) == status
        expect(visit.page.locator("h1")).to_contain_text(str(status))
    assert [page for page in pages if SECRET in page] == []
    everything = site.visit("viewer")
    everything.in_cluster("sessions")
    assert SECRET in everything.page.content()
    visit.page.context.close()
    everything.page.context.close()


def test_a_theme_stays(site: Site) -> None:
    visit = site.visit("viewer", color_scheme="light")
    page = visit.page
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    for name in ("light", "dark"):
        page.locator("[data-theme-switch]").click()
        expect(page.get_by_role("button", name=f"Theme: {name}")).to_be_visible()
    dark = page.evaluate(ground)
    assert dark != light
    page.reload()
    assert page.evaluate(ground) == dark
    visit.in_cluster("queue")
    assert page.evaluate(ground) == dark
    page.locator("[data-theme-switch]").click()
    assert page.evaluate(ground) == light
    page.reload()
    assert page.evaluate(ground) == light
    assert not visit.problems
    page.context.close()


def test_pages_can_be_read_without_scripts(site: Site) -> None:
    visit = site.visit("viewer", java_script_enabled=False)
    page = visit.page
    for href in [each.get_attribute("href") for each in page.locator(NAV).all()]:
        page.locator(f'.nav a[href="{href}"]').click()
        page.wait_for_url(f"{site.address}{href}")
        expect(page.locator("h1")).to_be_visible()
    visit.in_cluster("sessions/p/own/logs")
    expect(page.get_by_role("link", name="As text")).to_be_visible()
    page.get_by_role("button", name="Log out").click()
    page.wait_for_url(f"{site.address}/login")
    visit.in_cluster("")
    assert "/login" in page.url
    assert not visit.problems
    page.context.close()


def test_the_first_page_is_small(site: Site) -> None:
    visit = site.visit(storage_state=site.logged_in())
    network = visit.page.context.new_cdp_session(visit.page)
    sizes: list[float] = []
    network.on("Network.loadingFinished", lambda event: sizes.append(event["encodedDataLength"]))
    network.send("Network.enable")
    visit.in_cluster("")
    visit.waits_for_news()
    assert len(sizes) >= 5
    assert sum(sizes) <= 150 * 1024, sizes
    visit.page.context.close()
