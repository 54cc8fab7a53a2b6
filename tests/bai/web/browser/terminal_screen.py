"""What a terminal on a page shows."""

from __future__ import annotations

from playwright.sync_api import Locator, Page

from tests.waiting import until


def rows(page: Page) -> str:
    """What is on the screen."""
    return page.locator(".xterm-rows").inner_text().replace("\xa0", " ")


def shows(page: Page, text: str) -> None:
    until(lambda: text in rows(page), lambda: f"{text!r} on the screen: {rows(page)!r}")


def note(page: Page) -> Locator:
    return page.locator(".terminal-note")
