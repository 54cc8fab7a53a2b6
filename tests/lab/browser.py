"""A real browser: Debian's Chromium, driven by Playwright. It downloads none.

    def test_something(chromium: Chromium) -> None:
        page = chromium.page(java_script_enabled=False)

One process for all tests of the group `browser`; each page has cookies and a cache of its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.harness.labs import at_the_end_of
from tests.lab.cache import LabUnavailable, tool
from tests.lab.lent import lent
from tests.lab.spaces import PATIENCE

if TYPE_CHECKING:
    from playwright.sync_api import Page

GROUP = "browser"
PROGRAM = "chromium"


class Chromium:
    def __init__(self) -> None:
        """Raises LabUnavailable where it is missing or does not start."""
        from playwright.sync_api import Error, expect, sync_playwright  # every worker imports this module

        program = tool(PROGRAM)
        self._driver = sync_playwright().start()
        # Chromium makes no sandbox for root.
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        try:
            self._browser = self._driver.chromium.launch(executable_path=program, args=options)
        except Error as error:
            self._driver.stop()
            raise LabUnavailable(f"{PROGRAM} does not start: {error.message.splitlines()[0]}") from None
        expect.set_options(timeout=PATIENCE * 1000)
        self._is_open = True

    def page(self, **options: Any) -> Page:
        """An empty one of a context of its own, which takes Playwright's `options`; close its context."""
        context = self._browser.new_context(**options)
        context.set_default_timeout(PATIENCE * 1000)
        return context.new_page()

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._browser.close()
            self._driver.stop()


@pytest.fixture(scope="session")
def chromium() -> Iterator[Chromium]:
    for lab in lent("browser", Chromium):
        # As long as the driver is there, this thread counts as one in which an event loop runs.
        at_the_end_of(GROUP, lab.close)
        yield lab
