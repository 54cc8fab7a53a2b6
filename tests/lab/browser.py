"""A real browser: Debian's Chromium, driven by Playwright, which downloads none. Where it is installed, the
one without windows (`chromium-headless-shell`): the same engine for two thirds of the time of processors, for
the other one draws a window with tabs around each context, which nobody sees.

    def test_something(chromium: Chromium) -> None:
        page = chromium.page(java_script_enabled=False)

One process for all tests of the group `browser`; each page has cookies and a cache of its own.

Chromium gives up what it loads (ERR_NETWORK_CHANGED) when an interface of its network comes or goes, as other
tests' engines make them all the time. Where root runs the tests it has a network of its own, in which nothing
changes: what it is to reach listens at `chromium.listening()`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.harness.labs import at_the_end_of
from tests.lab.cache import LabUnavailable, tool
from tests.lab.lent import lent
from tests.lab.relay import Relay
from tests.lab.spaces import PATIENCE, Spaces, inside, listening, what_lacks

if TYPE_CHECKING:
    from playwright.sync_api import Page

GROUP = "browser"
PROGRAMS = ("chromium-headless-shell", "chromium")
"""The first of them that is there."""
LOCAL = "127.0.0.1"


class Chromium:
    def __init__(self) -> None:
        """Raises LabUnavailable where it is missing or does not start."""
        from playwright.sync_api import Error, expect, sync_playwright  # every worker imports this module

        program = next(filter(None, map(shutil.which, PROGRAMS)), None) or tool(PROGRAMS[-1])
        with contextlib.ExitStack() as undone:
            self._network = ""
            if not what_lacks("ip"):
                spaces = Spaces()
                undone.callback(spaces.close)
                self._network = _quiet_network(spaces)
            with inside(self._network) if self._network else contextlib.nullcontext():
                self._driver = sync_playwright().start()
            undone.callback(self._driver.stop)
            # Chromium makes no sandbox for root.
            options = ["--no-sandbox"] if os.geteuid() == 0 else []
            try:
                self._browser = self._driver.chromium.launch(
                    executable_path=program, args=options, timeout=PATIENCE * 1000
                )
            except Error as error:
                why = error.message.splitlines()[0]
                raise LabUnavailable(f"{program} does not start: {why}") from None
            undone.callback(self._browser.close)
            self._open = undone.pop_all()
        expect.set_options(timeout=PATIENCE * 1000)

    def listening(self) -> socket.socket:
        """A socket on a port of its own, which its pages reach."""
        return listening(self._network, LOCAL, 0) if self._network else socket.create_server((LOCAL, 0))

    @contextlib.contextmanager
    def reaching(self, port: int) -> Iterator[None]:
        """Its pages reach what listens at this port of this machine, as if they were on it."""
        if not self._network:
            yield
            return
        relay = Relay((LOCAL, port), "", (LOCAL, port), at=self._network)
        try:
            yield
        finally:
            relay.close()

    def page(self, **options: Any) -> Page:
        """An empty one of a context of its own, which takes Playwright's `options`; close its context."""
        context = self._browser.new_context(**options)
        context.set_default_timeout(PATIENCE * 1000)
        return context.new_page()

    def close(self) -> None:
        self._open.close()


def _quiet_network(spaces: Spaces) -> str:
    """A namespace with an interface whose addresses stay as they are: the one that IPv6 makes of itself would
    come a moment later."""
    name, _ = spaces.add()
    with inside(name), contextlib.suppress(FileNotFoundError):  # There may be no IPv6.
        Path("/proc/sys/net/ipv6/conf/all/disable_ipv6").write_text("1")
    return name


@pytest.fixture(scope="session")
def chromium() -> Iterator[Chromium]:
    for lab in lent("browser", Chromium):
        # As long as the driver is there, this thread counts as one in which an event loop runs.
        at_the_end_of(GROUP, lab.close)
        yield lab
