"""What takes longer to plan than a page: shown at once, and there without anybody's doing, with and without
scripts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.bai.web.browser.site import Shots, Visit
from tests.bai.web.browser.test_looks import NARROW, WIDE, is_too_wide, violations
from tests.bai.web.lab import serving
from tests.bai.web.panel.plans.test_planned_reviews import NEXT, HeldLab
from tests.bai.web.panel.proposals.test_planned_changes import HeldOffice
from tests.lab.browser import Chromium

pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HeldLab]:
    made = HeldLab(tmp_path, monkeypatch)
    yield made
    made.close()


def look_at(visit: Visit, shots: Shots, name: str) -> list[str]:
    """What is wrong with the looks of a page."""
    wrong = []
    for scheme, size in (("light", WIDE), ("dark", WIDE), ("narrow", NARROW)):
        visit.page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        visit.page.set_viewport_size(size)
        shots.take(visit.page, f"{name}-{scheme}")
        wrong += [f"{scheme}: {each}" for each in violations(visit.page)]
        wrong += [f"{scheme} is too wide"] if is_too_wide(visit.page) else []
    return wrong


def test_a_review_is_there_when_it_is_planned(lab: HeldLab, chromium: Chromium, shots: Shots) -> None:
    commit = lab.push(NEXT, "next", message="one more session")
    lab.once()
    with serving(lab.app, chromium.listening()) as address:
        visit = Visit(chromium.page(reduced_motion="reduce"), address)
        plain = Visit(chromium.page(java_script_enabled=False), address)
        for each in (visit, plain):
            each.log_in("admin")
            each.in_cluster("review?commit=refs/heads/next")
            expect(each.page.get_by_role("status").filter(has_text="Being planned")).to_be_visible()
            expect(each.page.get_by_role("row", name="one more session")).to_be_visible()
            expect(each.page.get_by_text("c.yaml")).to_be_visible()
        assert look_at(visit, shots, "planned") == []
        lab.free.set()
        for each in (visit, plain):
            expect(each.page.locator('form[action$="/orders/approve"]')).to_be_visible()
            assert f"seen={commit}-" in each.page.url, "what is ordered is what is seen"
        visit.waits_for_news()
        page = visit.page
        page.locator('form[action$="/orders/approve"]').get_by_role("button").click()
        page.wait_for_url("**/reviews")
        assert not visit.problems
        visit.page.context.close()
        plain.page.context.close()


def test_a_change_can_be_made_when_it_is_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chromium: Chromium, shots: Shots
) -> None:
    office = HeldOffice(tmp_path)
    office.hold(monkeypatch)
    with serving(office.app, chromium.listening()) as address:
        visit = Visit(chromium.page(reduced_motion="reduce"), address)
        visit.log_in("operator")
        page = visit.page
        visit.in_cluster("change?action=node&target=Node/n1&value=cordoned")
        expect(page.get_by_text("+  state: cordoned")).to_be_visible()
        expect(page.get_by_role("status").filter(has_text="Being planned")).to_be_visible()
        expect(page.get_by_role("button", name="Commit to what is followed")).to_have_count(0)
        assert look_at(visit, shots, "change-planned") == []
        office.free.set()
        expect(page.get_by_text("no running session is touched")).to_be_visible()
        page.get_by_label("Why").fill("a fan")
        page.get_by_role("button", name="Commit to what is followed").click()
        page.get_by_text("not followed yet").wait_for()
        assert not visit.problems
        page.context.close()
    office.close()
