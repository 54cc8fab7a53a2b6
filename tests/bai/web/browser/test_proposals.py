"""Changing a cluster in a browser: a session written, planned while it is typed, committed, running; a node
that takes nothing new; a waiting one and why."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect

from tests.bai.web.browser.site import Visit
from tests.bai.web.lab import serving
from tests.bai.web.panel.proposals.office import Office
from tests.lab.browser import Chromium

pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    made = Office(tmp_path)
    yield made
    made.close()


@pytest.fixture
def visit(office: Office, chromium: Chromium) -> Iterator[Visit]:
    """Logged in as who may change all."""
    with serving(office.app, chromium.listening()) as address:
        made = Visit(chromium.page(), address)
        made.log_in("operator")
        yield made
        made.page.context.close()


def found(page: Page) -> str:
    return page.locator("#preview").inner_text()


def test_an_answer_to_what_was_there_before_takes_nothing_away(office: Office, visit: Visit) -> None:
    page, held = visit.page, list[Route]()
    page.route("**/new/preview", lambda route: route.continue_() if held else held.append(route))
    with page.expect_request("**/new/preview"):
        page.get_by_role("link", name="New session").click()
    page.get_by_label("Project").select_option("p")
    page.get_by_label("Name").fill("train")
    held[0].continue_()
    expect(page.locator("#preview")).to_contain_text("It would start on")
    expect(page.get_by_label("Name")).to_have_value("train")


def test_a_session_is_written_planned_while_it_is_typed_and_runs(office: Office, visit: Visit) -> None:
    page = visit.page
    page.get_by_role("link", name="New session").click()
    page.get_by_label("Project").select_option("p")
    page.get_by_label("Name").fill("train")
    page.get_by_label("GPUs").fill("1")
    preview = page.locator("#preview")
    expect(preview).to_contain_text("It would start on")
    expect(preview).to_contain_text("GPU")
    yaml = page.get_by_label("As YAML")
    expect(yaml).to_have_value(re.compile(r"cuda\.device: 1"))
    # More than there is: why it would wait, with numbers.
    page.get_by_label("GPUs").fill("2")
    page.get_by_label("Containers").fill("2")
    expect(preview).to_contain_text("It would wait")
    expect(preview.locator(".reasons")).to_contain_text("GPU")
    # In YAML, with a mistake that has its place; then right.
    text = yaml.input_value()
    yaml.fill(text.replace("cuda.device: 2", "cuda.devise: 1"))
    expect(preview).to_contain_text("sessions/p/train.yaml:")
    yaml.fill(text.replace("cuda.device: 2", "cuda.device: 1"))
    expect(preview).to_contain_text("It would start on")
    expect(page.get_by_label("GPUs")).to_have_value("1")
    # What was typed is in the address.
    assert "cuda.device" in page.url
    page.reload()
    expect(page.get_by_label("Name")).to_have_value("train")
    expect(preview).to_contain_text("It would start on")
    page.get_by_role("button", name="Look at the change").click()
    expect(page.get_by_role("heading", name="Run Session/p/train")).to_be_visible()
    page.get_by_label("Why").fill("for the paper")
    page.get_by_role("button", name="Commit to what is followed").click()
    expect(page.get_by_text("not followed yet")).to_be_visible()
    assert "Reason: for the paper" in office.git("show", "--no-patch", "main")
    visit.waits_for_news()
    assert office.once() and office.once(), office.lines
    expect(page.get_by_text("carried out")).to_be_visible()
    page.get_by_role("link", name="its session").click()
    expect(page.get_by_text("RUNNING").first).to_be_visible()
    assert visit.problems == []


def test_a_node_is_cordoned(office: Office, visit: Visit) -> None:
    page = visit.page
    visit.in_cluster("nodes/n1")
    page.get_by_role("link", name="Cordon", exact=True).click()
    expect(page.get_by_text("+  state: cordoned")).to_be_visible()
    page.get_by_label("Why").fill("a fan")
    page.get_by_role("button", name="Commit to what is followed").click()
    page.get_by_text("not followed yet").wait_for()
    visit.waits_for_news()
    assert office.once(), office.lines
    expect(page.get_by_text("carried out")).to_be_visible()
    visit.in_cluster("nodes/n1")
    expect(page.get_by_role("link", name="Uncordon")).to_be_visible()
    assert visit.problems == []
