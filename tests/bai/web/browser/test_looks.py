"""What pages look like: rules of accessibility, narrow screens, and pictures of all of them for people.

BAI_SHOTS names the folder that the pictures go to; without it none are taken.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page, ViewportSize

from tests.bai.web.browser.site import Shots, Site

pytestmark = pytest.mark.xdist_group("browser")
PAGES = (
    "/login",
    "/clusters/here",
    *(
        f"/clusters/here/{each}"
        for each in (
            "nodes", "nodes/n1", "queue", "sessions", "sessions?q=none", "sessions/p/own",
            "sessions/p/waiting?explain=1", "sessions/p/own/logs", "plan", "review", "history", "events",
            "audit", "usage", "capacity", "resources", "resources/Session/p/own", "nodes/none",
            "usage?by=session", "new?copy=Session/p/own", "change?action=end&target=Session/p/own",
            "change?action=node&target=Node/n1&value=drained", "change?action=edit&target=Node/n1", "reviews",
            "compare", "numbers?range=6h", "numbers/showback", "sessions/p/own/terminal",
        )
    ),
)  # fmt: skip
WIDE, NARROW = ViewportSize(width=1280, height=800), ViewportSize(width=390, height=844)
_COLOURS: Mapping[str, Any] = {"runOnly": ["color-contrast"]}
"""Rules for what differs in the dark."""
VIEWS: tuple[tuple[str, Literal["light", "dark"], ViewportSize, Mapping[str, Any]], ...] = (
    ("light", "light", WIDE, {}),
    ("dark", "dark", WIDE, _COLOURS),
    ("narrow", "light", NARROW, {}),
)
"""Name, colours, size and rules of each."""
GRAVE = ("serious", "critical")
_RUN = "options => axe.run(document, options).then((done) => done.violations)"
_OPTIONS: Mapping[str, Any] = {"resultTypes": ["violations"], "preload": False}
"""Style sheets and media are not fetched once more for rules that are off by default, or not grave."""


def violations(page: Page, **options: Any) -> list[str]:
    """What breaks a rule gravely, and where."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE_SCRIPT)
    found = page.evaluate(_RUN, {**_OPTIONS, **options})
    return [
        f"{page.url}: {each['id']}: {node['target']} {node['failureSummary']}"
        for each in found
        if each["impact"] in GRAVE
        for node in each["nodes"]
    ]


def is_too_wide(page: Page) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"))


@pytest.mark.parametrize("address", PAGES)
def test_a_page_can_be_read_by_everybody(site: Site, shots: Shots, address: str) -> None:
    check_looks(site, shots, address)


def check_looks(site: Site, shots: Shots, address: str) -> None:
    """A page of a site, in each view."""
    who = "operator" if address.endswith("/terminal") else "viewer"
    visit = site.tab("" if address == "/login" else who, viewport=WIDE, reduced_motion="reduce")
    page, name = visit.page, re.sub(r"\W+", "-", address).strip("-")
    page.emulate_media(color_scheme=VIEWS[0][1])
    page.set_viewport_size(VIEWS[0][2])
    visit.go(address)
    wrong = []
    for view, scheme, size, rules in VIEWS:
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size(size)
        shots.take(page, f"{name}-{view}")
        wrong += [f"{view}: {each}" for each in violations(page, **rules)]
        if is_too_wide(page):
            wrong.append(f"{view}: the page is wider than its window")
    assert not wrong, "\n".join(wrong)
