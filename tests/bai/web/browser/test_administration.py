"""The pages of administration as an admin and a viewer of one project walk through them, and what they look
like."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from reconciler.gitops.directives import Directive, issue_directive
from tests.bai.web.browser.site import Shots, Site, SpokenLogs
from tests.bai.web.browser.test_looks import check_looks
from tests.bai.web.lab import Lab, serving
from tests.bai.web.panel.administration.world import managed, profiled
from tests.bai.web.panel.rendering import LABELLED_NODE, SECRET
from tests.lab.browser import Chromium
from tests.reconciler.lab import session

pytestmark = pytest.mark.xdist_group("browser")
PAGES = (
    "projects", "projects/p", "users", "users/ada", "groups", "groups/default", "nodes", "waves", "storage",
    "images", "notifications", "audit", "audit?resource=none",
)  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, chromium: Chromium) -> Iterator[Site]:
    """With all that administration is about; tests leave it as it is."""
    lab = Lab(tmp_path_factory.mktemp("site"), node=LABELLED_NODE)
    managed(lab)
    with serving(lab.app, chromium.listening()) as address:
        made = Site(lab, address, SpokenLogs(lab.world), chromium)
        yield made
        made.close()
    lab.close()


@pytest.mark.parametrize("page", PAGES)
def test_a_page_can_be_read_by_everybody(site: Site, shots: Shots, page: str) -> None:
    check_looks(site, shots, f"/clusters/here/{page}")


def test_an_admin_walks_from_what_is_scarce_to_who_has_it(site: Site) -> None:
    visit = site.visit("admin")
    page = visit.page
    main, nav = page.locator("main"), page.locator(".nav")

    def goes(label: str, address: str) -> None:
        nav.get_by_role("link", name=label, exact=True).click()
        page.wait_for_url(f"**/clusters/here/{address}")
        visit.waits_for_news()

    goes("Projects", "projects")
    row = main.get_by_role("row").filter(has=page.get_by_role("link", name="p", exact=True))
    expect(row).to_contain_text("cpu 1")
    row.get_by_role("link", name="p", exact=True).click()
    page.wait_for_url("**/projects/p")
    expect(main).to_contain_text(f"1 of what {SECRET}-cores does not use")
    main.get_by_role("link", name="ada", exact=True).click()
    page.wait_for_url("**/users/ada")
    main.get_by_role("link", name="Sessions", exact=True).click()
    page.wait_for_url("**/sessions?owner=ada")
    expect(main.locator("tbody tr")).to_have_count(1)
    goes("Groups", "groups")
    main.get_by_role("link", name="default", exact=True).click()
    page.wait_for_url("**/groups/default")
    expect(main.get_by_role("heading", name="Rules")).to_be_visible()
    main.get_by_role("link", name="Nodes", exact=True).click()
    page.wait_for_url("**/nodes?group=default")
    page.get_by_label("Name").fill("n2")
    page.get_by_role("button", name="Show").click()
    expect(main.locator("tbody tr")).to_have_count(1)
    main.get_by_role("link", name="Provisioning").click()
    page.wait_for_url("**/waves")
    goes("Storage", "storage")
    main.get_by_role("link", name="Count what they hold").click()
    expect(main).to_contain_text("The trash is empty.")
    goes("Images", "images")
    expect(main).to_contain_text("SHA256:key-of-ada")
    goes("Notifications", "notifications")
    expect(main).to_contain_text(f"refused by https://hooks.{SECRET}.example/…")
    goes("Audit", "audit")
    page.get_by_label("What").select_option("create")
    page.get_by_label("Resource").fill("p/own")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**/audit?*verb=create*")
    expect(main.locator("tbody tr")).to_have_count(1)
    main.get_by_role("link", name="all of it").click()
    page.wait_for_url("**/audit?resource=Session%2Fp%2Fown")
    assert not visit.problems
    page.context.close()


def test_a_viewer_of_one_project_walks_through_what_is_theirs(site: Site) -> None:
    visit = site.visit("ours")
    page = visit.page
    labels = page.locator(".nav a").evaluate_all("all => all.map(each => each.firstChild.data)")
    assert {"Projects", "Users", "Groups", "Storage", "Images", "Audit"} <= set(labels)
    assert not {"Provisioning", "Notifications"} & set(labels)
    for address in ("projects", "projects/p", "users", "users/bob", "groups", "groups/default", "nodes",
                    "storage", "images", "audit"):  # fmt: skip
        assert visit.in_cluster(address) == 200
        visit.waits_for_news()
        assert SECRET not in page.content(), address
    assert not visit.problems
    for refused, status in (("waves", 403), ("notifications", 403), (f"projects/{SECRET}", 404)):
        assert visit.in_cluster(refused) == status
    page.context.close()


def test_waves_and_drift_can_be_read_by_everybody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chromium: Chromium, shots: Shots
) -> None:
    lab, machines = profiled(tmp_path, monkeypatch)
    for name in ("s1", "s2"):
        lab.write(name, session(name, "resources: {cuda.device: 2}, movable: true"))
    while len(lab.world.kernels) < 2:
        lab.once()
    lab.write("stays", session("stays", "resources: {cuda.device: 2}"))
    assert lab.once(), lab.lines
    for name in machines.nodes:
        machines.drift(name, "sysctl vm.swappiness", "1", "60")
    issue_directive(lab.workspace.store, "here", "suspend", Directive("ada", 1.0, "a pause"))
    lab.once()
    with serving(lab.app, chromium.listening()) as address:
        site = Site(lab, address, SpokenLogs(lab.world), chromium)
        for page in ("waves?page=1", "nodes?standing=drifted"):
            check_looks(site, shots, f"/clusters/here/{page}")
        visit = site.visit("viewer")
        visit.in_cluster("waves")
        main = visit.page.locator("main")
        expect(main).to_contain_text("it may not be moved")
        main.get_by_role("link", name="drifted 4").click()
        visit.page.wait_for_url("**/nodes?profile=std&standing=drifted")
        expect(main.locator("tbody tr")).to_have_count(4)
        expect(main).to_contain_text("sysctl vm.swappiness is 60, sealed 1")
        assert not visit.problems
        visit.page.context.close()
        site.close()
    lab.close()
