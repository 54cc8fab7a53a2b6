"""Plots in a real browser: they appear within the policy and follow what is chosen; and a file of a month."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from providers.fake import SimulatedLoad
from reconciler.controller.figure_recorder import FigureRecorder
from tests.bai.web.browser.site import Site, SpokenLogs
from tests.bai.web.lab import Lab, serving
from tests.bai.web.panel.rendering import LABELLED_NODE, SECRET, two_projects
from tests.lab.browser import Chromium
from tests.waiting import until

pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory, chromium: Chromium) -> Iterator[Site]:
    """Two projects with some hours of figures, and sessions whose use is measured."""
    lab = Lab(tmp_path_factory.mktemp("measured"), node=LABELLED_NODE)
    lab.loop.add_listener(FigureRecorder(lab.loop).record)
    logs = SpokenLogs(lab.world)
    lab.workspace.provider = logs
    two_projects(lab)
    for kernel in lab.world.kernels:
        lab.world.use(kernel, SimulatedLoad(cores=1.5, gpu=60))
    for _ in range(40):
        lab.world.clock.sleep(240)
        lab.once()
    with serving(lab.app, chromium.listening()) as address:
        yield Site(lab, address, logs, chromium)
        logs.end()
    lab.close()


def drawn(page: Page) -> int:
    """Pictures in which something is drawn."""
    found: int = page.evaluate("""
        [...document.querySelectorAll(".plot canvas")].filter((canvas) => canvas.width > 0 &&
          canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.some(Boolean)).length
    """)
    return found


def plot(page: Page, key: str) -> str:
    return f".plot[data-plot={key}] .uplot"


def test_plots_are_drawn_and_follow_what_is_chosen(measured: Site) -> None:
    visit = measured.visit("viewer")
    page = visit.page
    visit.in_cluster("numbers?range=6h")
    keys = ("utilisation", "running", "queue", "waits", "reasons", "fits", "sessions", "numa", "spread")
    for key in (*keys, "wrong"):
        expect(page.locator(plot(page, key))).to_be_visible()
    assert drawn(page) == 10
    expect(page.locator("details.plot-table[open]")).to_have_count(0)
    expect(page.locator("[data-plot=utilisation]")).to_have_attribute(
        "aria-label", "Allocated: GPUs 75 %, cores 25 %, memory 2.3 %"
    )
    table = page.locator("details.plot-table").first
    table.locator("summary").click()
    expect(table.get_by_role("cell", name="75 %").first).to_be_visible()
    visit.waits_for_news()
    with page.expect_response(lambda answer: "/numbers/data?range=7d" in answer.url):
        page.get_by_role("link", name="7 days").click()
    expect(page.locator(plot(page, "utilisation"))).to_be_visible()
    expect(page.get_by_role("navigation", name="Time").locator("[aria-current]")).to_have_text("7 days")
    assert drawn(page) == 10
    assert not visit.problems
    page.context.close()


def test_plots_take_the_colours_of_the_page_and_fit_its_window(measured: Site) -> None:
    visit = measured.visit("viewer")
    page = visit.page
    visit.in_cluster("numbers?range=6h")
    expect(page.locator(plot(page, "utilisation"))).to_be_visible()
    marker = page.locator(f"{plot(page, 'utilisation')} .u-series:nth-child(2) .u-marker")
    light = marker.evaluate("each => getComputedStyle(each).borderColor")
    page.emulate_media(color_scheme="dark")
    expect(marker).not_to_have_css("border-color", light)
    page.set_viewport_size({"width": 390, "height": 844})
    fits = "document.querySelector('.plot canvas').clientWidth < 390"
    until(lambda: page.evaluate(fits), "the plot fits its window")
    assert not visit.problems
    page.context.close()


def test_news_of_the_cluster_leaves_plots_where_they_are(measured: Site) -> None:
    visit = measured.visit("viewer")
    page = visit.page
    visit.in_cluster("numbers?range=6h")
    expect(page.locator(plot(page, "utilisation"))).to_be_visible()
    visit.waits_for_news()
    page.evaluate("document.querySelector('.plot canvas').dataset.same = 'yes'")
    page.evaluate("""
        () => new Promise((done) => {
          document.addEventListener("htmx:afterSwap", done, { once: true });
          htmx.trigger("#live", "news");
        }).then(() => true)
    """)
    expect(page.locator(".plot canvas[data-same=yes]")).to_have_count(1)
    assert drawn(page) == 10 and not visit.problems
    page.context.close()


def test_without_scripts_the_tables_are_open(measured: Site) -> None:
    visit = measured.visit(java_script_enabled=False)
    visit.log_in("viewer")
    visit.in_cluster("numbers?range=6h")
    expect(visit.page.get_by_role("table", name="Allocated")).to_be_visible()
    expect(visit.page.get_by_role("table", name="Why they wait")).to_contain_text("no-capacity")
    visit.page.context.close()


def test_the_file_of_a_month_is_what_the_page_shows(measured: Site, tmp_path: Path) -> None:
    for token, projects in (("viewer", {"p", SECRET}), ("ours", {"p"})):
        visit = measured.visit(token, accept_downloads=True)
        page = visit.page
        visit.in_cluster("numbers")
        page.get_by_role("link", name="Showback").click()
        page.get_by_label("Month").select_option("2027-01")
        page.get_by_label("By").select_option("project")
        page.get_by_role("button", name="Show").click()
        page.wait_for_url("**/showback?month=2027-01&by=project")
        with page.expect_download() as started:
            page.get_by_role("link", name="Download CSV").click()
        file = tmp_path / f"{token}.csv"
        started.value.save_as(file)
        assert started.value.suggested_filename == "here-2027-01-project.csv"
        rows = list(csv.DictReader(io.StringIO(file.read_text())))
        assert {row["project"] for row in rows} == projects
        for row in rows:
            shown = page.get_by_role("row").filter(
                has=page.get_by_role("cell", name=row["project"], exact=True)
            )
            expect(shown).to_contain_text(f"{float(row['gpuHours']):.2f}")
        assert not visit.problems
        page.context.close()


def test_what_a_session_uses_is_drawn_as_it_goes_on(measured: Site) -> None:
    visit = measured.visit("viewer")
    page = visit.page
    visit.in_cluster("sessions/p/own")
    use = page.get_by_role("region", name="Use now")
    row = use.get_by_role("group", name="Use now").get_by_role("row", name="main1")
    expect(row).to_contain_text("60 %")
    asked = page.locator("[data-look=busy] .uplot")
    expect(asked).to_be_visible()
    measured.lab.world.clock.sleep(10)
    expect(page.locator("[data-look=cpu] .uplot")).to_be_visible()
    expect(row).to_contain_text("1.5 of 2")
    assert not visit.problems
    page.context.close()
