"""From a branch to a cluster that runs it, and back again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.bai.web.browser.site import Shots, Site, SpokenLogs
from tests.bai.web.browser.test_looks import NARROW, WIDE, is_too_wide, violations
from tests.bai.web.lab import serving
from tests.bai.web.panel.plans.following import GPU, FollowingLab
from tests.lab.browser import Chromium
from tests.reconciler.lab import session

pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture
def following(tmp_path: Path, chromium: Chromium) -> Iterator[Site]:
    """A site that follows a remote and waits for approval."""
    lab = FollowingLab(tmp_path)
    logs = SpokenLogs(lab.world)
    lab.workspace.provider = logs
    with serving(lab.app, chromium.listening()) as address:
        yield Site(lab, address, logs, chromium)
        logs.end()
    lab.close()


def lab_of(site: Site) -> FollowingLab:
    assert isinstance(site.lab, FollowingLab)
    return site.lab


def order(page: Page, name: str, why: str = "") -> None:
    form = page.locator(f'form[action$="/orders/{name}"]').first
    if why:
        form.get_by_role("textbox").fill(why)
    form.get_by_role("button").click()


def test_a_branch_is_reviewed_approved_carried_out_and_taken_back(following: Site, tmp_path: Path) -> None:
    lab = lab_of(following)
    start = lab.commit
    change: dict[str, str | None] = {
        "a.yaml": None,
        "c.yaml": session("c", "resources: {cpu: 2, memory: 1GiB, cuda.device: 2}"),
    }
    commit = lab.push(change, "next", message="c in place of a")
    lab.once()
    visit = following.visit("admin")
    page = visit.page
    page.locator(".nav").get_by_role("link", name="Reviews", exact=True).click()
    page.get_by_role("link", name="next", exact=True).click()
    expect(page.locator("h1")).to_have_text("Review of next")
    before, after = page.locator(".pair .before"), page.locator(".pair .after")
    expect(before.locator(".gpus .cell.new")).to_have_count(1)
    expect(before.locator(".gpus .cell.new")).to_contain_text("p/a")
    expect(after.locator(".gpus .cell.new")).to_have_count(2)
    expect(after.locator(".gpus .cell.new").first).to_contain_text("p/c")
    wide = [page.locator(".sides").first.locator(f".{side}").bounding_box() for side in ("before", "after")]
    assert wide[0] and wide[1] and wide[0]["y"] == wide[1]["y"]
    page.set_viewport_size(NARROW)
    narrow = [page.locator(".sides").first.locator(f".{side}").bounding_box() for side in ("before", "after")]
    assert narrow[0] and narrow[1] and narrow[0]["y"] < narrow[1]["y"]
    page.set_viewport_size(WIDE)
    expect(page.get_by_role("row", name="c in place of a")).to_be_visible()
    expect(page.locator(".diff .added").first).to_be_visible()

    # Approved before it is merged; carried out once it is.
    order(page, "approve", "c is more urgent")
    page.wait_for_url("**/reviews")
    expect(page.locator(".standing")).to_contain_text("c is more urgent")
    lab.push(change)
    lab.once()
    visit.in_cluster("reviews")
    visit.in_cluster("review?commit=main")
    order(page, "approve", "merged")
    page.wait_for_url("**/reviews")
    lab.once()
    lab.once()
    assert lab.commit != start and commit

    visit.in_cluster("plan")
    order(page, "suspend", "the power is measured")
    expect(page.locator(".standing")).to_contain_text("the power is measured")
    order(page, "resume", "measured")
    expect(page.get_by_role("button", name="Suspend")).to_be_visible()
    order(page, "reconcile")
    page.wait_for_url("**/plan")

    visit.in_cluster("history")
    page.locator("tbody tr").filter(has_text="the first").locator("code").first.click()
    expect(page.get_by_role("heading", name="Running sessions that do not stay")).to_be_visible()
    order(page, "rollback", "c was not urgent")
    page.wait_for_url("**/plan")
    expect(page.locator(".standing")).to_contain_text("c was not urgent")
    lab.once()
    lab.once()
    assert lab.commit == start

    visit.in_cluster("history")
    rows = page.locator("tbody tr")
    for said in ("c was not urgent", "the power is measured", "c is more urgent"):
        expect(rows.filter(has_text=said)).to_have_count(1)
    page.locator('tbody a[href*="/history/here-"]').first.click()
    expect(page.get_by_role("heading", name="Actions")).to_be_visible()
    visit.in_cluster("audit")
    expect(page.locator("main")).to_contain_text("c was not urgent")
    assert not visit.problems
    page.context.close()


def test_these_pages_can_be_read_by_everybody(following: Site, shots: Shots) -> None:
    lab = lab_of(following)
    change: dict[str, str | None] = {
        "a.yaml": None,
        "b.yaml": session("b", "resources: {cpu: 3, memory: 1GiB, cuda.device: 1}"),
        "c.yaml": session("c", "resources: {cpu: 2, memory: 1GiB, cuda.device: 2}"),
        "d.yaml": session("d", GPU.replace("cpu: 2", "cpu: 900")),
    }
    lab.push(change, "next", message="c in place of a, and b on another core")
    lab.push({}, message="merged")
    lab.once()
    visit = following.visit("admin", viewport=WIDE, reduced_motion="reduce")
    page = visit.page
    visit.in_cluster("plan")
    order(page, "suspend", "the power is measured")
    apply = next(each.apply for each in lab.loop.workspace.store.audit("here") if each.apply)
    wrong = []
    for name, address in (
        ("reviews", "reviews"),
        ("review", "review?commit=refs/heads/next"),
        ("moved", f"review?commit=next&seen={'0' * 40}-{'0' * 64}"),
        ("plan-suspended", "plan"),
        ("history", "history"),
        ("apply", f"history/{apply}"),
        ("compare", "compare?to=refs/heads/next"),
    ):
        assert visit.in_cluster(address) == 200
        for scheme, size in (("light", WIDE), ("dark", WIDE), ("narrow", NARROW)):
            page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
            page.set_viewport_size(size)
            shots.take(page, f"{name}-{scheme}")
            rules = {"runOnly": ["color-contrast"]} if scheme == "dark" else {}
            wrong += [f"{scheme}: {each}" for each in violations(page, **rules)]
            if is_too_wide(page):
                wrong.append(f"{scheme}: {address} is wider than its window")
    assert not wrong, "\n".join(wrong)
    assert not visit.problems
    page.context.close()
