"""A real JupyterLab, opened in a real browser at its own name, by those who may; and all who may not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.bai.web.browser.test_looks import violations
from tests.integration.apps_world import TOKEN, AppsWorld, apps_world
from tests.lab.browser import Chromium
from tests.lab.cache import LabUnavailable
from tests.waiting import until

pytestmark = pytest.mark.xdist_group("browser")
COOKIE = "__Host-bai-app"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, chromium: Chromium) -> Iterator[AppsWorld]:
    try:
        with (
            apps_world(tmp_path_factory.mktemp("apps")) as made,
            chromium.reaching(made.apps_port),
            chromium.reaching(made.panel_port),
        ):
            yield made
    except LabUnavailable as error:
        pytest.skip(f"jupyter lab: {error}")


@pytest.fixture
def page(world: AppsWorld, chromium: Chromium) -> Iterator[Page]:
    """Of somebody who has not been here; they have looked at the certificate."""
    made = chromium.page(ignore_https_errors=True)
    yield made
    made.context.close()


def log_in(page: Page, token: str) -> None:
    """On the panel's page, where the app has led to."""
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Log in").click()


def test_a_notebook_computes_for_whoever_logs_in(world: AppsWorld, page: Page) -> None:
    sockets: list[str] = []
    page.on("websocket", lambda found: sockets.append(found.url))
    page.goto(f"{world.url('jupyter', 'lab')}/lab?token={TOKEN}")
    assert page.url.startswith(world.panel)
    log_in(page, "ada")
    page.locator('.jp-LauncherCard[data-category="Notebook"]').first.click()
    # Until its kernel is there the page is made anew, and what is typed may go elsewhere.
    expect(page.get_by_text("Python 3 (ipykernel) | Idle")).to_be_visible()
    cell = page.locator(".jp-Notebook .cm-content").first
    cell.press_sequentially("1+1")
    expect(cell).to_have_text("1+1")
    cell.press("Shift+Enter")
    expect(page.locator(".jp-OutputArea-output pre").first).to_have_text("2")
    channels = f"wss://{world.host('jupyter', 'lab')}/api/kernels/"
    assert any(url.startswith(channels) for url in sockets), sockets
    (kept,) = [each for each in page.context.cookies(world.url("jupyter", "lab")) if each["name"] == COOKIE]
    assert kept["httpOnly"] and kept["secure"] and not kept["domain"].startswith(".")
    assert COOKIE not in page.evaluate("document.cookie")


def test_the_second_app_needs_no_login_and_learns_nothing_of_it(world: AppsWorld, page: Page) -> None:
    page.goto(world.url("teller", "teller"))
    log_in(page, "ada")
    told = page.locator("body")
    expect(told).to_contain_text('"host"')
    assert "bai" not in told.inner_text().replace("bai-lab", "").lower(), told.inner_text()
    page.goto(f"{world.url('jupyter', 'lab')}/api?token={TOKEN}")
    expect(page.locator("body")).to_contain_text('"version"')


def test_a_stranger_is_led_to_the_login(world: AppsWorld, page: Page) -> None:
    page.goto(world.url("jupyter", "lab"))
    expect(page.get_by_role("heading", name="Log in to bai")).to_be_visible()
    assert page.url.startswith(world.panel)
    answer = world.ask("jupyter", "lab", "/api")
    assert answer.status_code == 401 and "version" not in answer.text
    assert world.ask("jupyter", "lab", "/api", Authorization="Bearer nobody").status_code == 401


def test_a_viewer_of_another_project_hears_of_no_app(world: AppsWorld, page: Page) -> None:
    page.goto(world.url("jupyter", "lab"))
    log_in(page, "eve")
    expect(page.locator("body")).to_contain_text("There is no such app, or it is not for you")
    assert world.ask("jupyter", "lab", Authorization="Bearer eve").status_code == 404
    assert world.ask("teller", "none", Authorization="Bearer eve").status_code == 404


def test_a_viewer_of_the_project_opens_what_is_for_the_project(world: AppsWorld) -> None:
    refused = world.ask("jupyter", "lab", Authorization="Bearer vic")
    assert refused.status_code == 403 and "operators of its project" in refused.text
    told = world.ask("teller", "teller", Authorization="Bearer vic")
    assert told.status_code == 200 and "authorization" not in told.json()


def test_cookies_that_were_forged_or_are_another_app_s_open_nothing(world: AppsWorld, page: Page) -> None:
    page.goto(world.url("teller", "teller"))
    log_in(page, "ada")
    expect(page.locator("body")).to_contain_text('"host"')
    (kept,) = [each for each in page.context.cookies(world.url("teller", "teller")) if each["name"] == COOKIE]
    own = world.ask("teller", "teller", Cookie=f"{COOKIE}={kept['value']}; mine=1")
    assert own.status_code == 200 and own.json()["cookie"] == "mine=1"
    changed = ("A" if kept["value"][40] != "A" else "B").join((kept["value"][:40], kept["value"][41:]))
    for app, value in (("jupyter", kept["value"]), ("teller", changed), ("teller", "forged")):
        session = "lab" if app == "jupyter" else app
        assert world.ask(app, session, "/api", Cookie=f"{COOKIE}={value}").status_code == 401, (app, value)


def test_a_link_opens_one_app_until_its_time_is_over(world: AppsWorld, page: Page, tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text("ada")
    world.bai("login", world.panel, "--token", f"file:{secret}", folder=tmp_path)
    link = world.bai("share", "lab", "--for", "10m", folder=tmp_path).strip()
    assert link.startswith(f"{world.url('jupyter', 'lab')}/.bai/link?")
    page.goto(link)
    page.goto(f"{world.url('jupyter', 'lab')}/api?token={TOKEN}")
    expect(page.locator("body")).to_contain_text('"version"')
    page.goto(world.url("teller", "teller"))
    expect(page.get_by_role("heading", name="Log in to bai")).to_be_visible()
    path = "/" + world.bai("share", "lab", "--for", "1s", folder=tmp_path).strip().split("/", 3)[3]
    until(lambda: world.ask("jupyter", "lab", path).status_code == 403, "the link is over")
    audit = world.bai("audit", "lab")
    assert "a link for whoever has it" in audit and "ada" in audit


def test_a_session_s_page_leads_to_its_apps(world: AppsWorld, page: Page) -> None:
    page.goto(f"{world.panel}/clusters/here/sessions/demo/teller")
    log_in(page, "ada")
    expect(page.get_by_role("heading", name="Apps")).to_be_visible()
    assert violations(page) == []
    with page.expect_popup() as opened:
        page.get_by_role("link", name=world.url("teller", "teller")).click()
    expect(opened.value.locator("body")).to_contain_text('"host"')
    assert opened.value.evaluate("window.opener") is None


def test_a_session_s_page_shares_an_app(world: AppsWorld, page: Page, chromium: Chromium) -> None:
    page.goto(f"{world.panel}/clusters/here/sessions/demo/teller")
    log_in(page, "vic")
    page.get_by_role("button", name="Share").click()
    link = page.locator("pre.lines").inner_text().strip()
    assert link.startswith(f"{world.url('teller', 'teller')}/.bai/link?") and violations(page) == []
    stranger = chromium.page(ignore_https_errors=True)
    stranger.goto(link)
    expect(stranger.locator("body")).to_contain_text('"host"')
    stranger.context.close()
    page.goto(f"{world.panel}/clusters/here/sessions/demo/lab")
    expect(page.get_by_role("heading", name="Apps")).to_be_visible()
    assert page.get_by_role("button", name="Share").count() == 0


def test_what_does_not_run_yet_says_so(world: AppsWorld, page: Page) -> None:
    answer = world.ask("teller", "later", Authorization="Bearer ada")
    assert answer.status_code == 503 and "retry-after" in answer.headers
    page.goto(world.url("teller", "later"))
    log_in(page, "ada")
    expect(page.locator("h1")).to_have_text("This app is not there yet")


def test_commands_know_the_address(world: AppsWorld) -> None:
    assert world.bai("open", "--print", "lab") == f"{world.url('jupyter', 'lab')}\n"
    assert world.url("teller", "teller") in world.bai("get", "session", "teller")
    assert "its owner and operators of demo" in world.bai("describe", "lab")
