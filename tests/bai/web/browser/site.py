"""A served cluster, and pages of it in a browser that says what is wrong with them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from playwright.sync_api import ConsoleMessage, Page, Request, Response, StorageState

from providers.fake import FakeProvider, World
from tests.bai.web.lab import Lab
from tests.lab.browser import Chromium

_VIOLATIONS = """
document.addEventListener("securitypolicyviolation", (event) =>
  console.error(`policy: ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}`));
"""
_LEFT = "net::ERR_ABORTED"
"""What happens to streams of a page that is left."""


class SpokenLogs(FakeProvider):
    """Logs that go on as long as the test does."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._news, self._ended = threading.Condition(), False

    def say(self, session: str, *lines: bytes) -> None:
        """The session writes these lines."""
        log = next(each.log for each in self.world.kernels.values() if each.spec.labels.resource == session)
        with self._news:
            log.extend(lines)
            self._news.notify_all()

    def end(self) -> None:
        with self._news:
            self._ended = True
            self._news.notify_all()

    def logs(self, kernel_id: str, *, follow: bool = False, tail: int | None = None) -> Iterator[bytes]:
        log = self.world.kernels[kernel_id].log
        with self._news:  # What is said from here on comes once, and not among these.
            known, said = len(log), list(super().logs(kernel_id, tail=tail))
        yield from said
        while follow and not self._ended:
            with self._news:
                while len(log) == known and not self._ended:
                    self._news.wait()
                fresh = log[known:]
            known += len(fresh)
            yield from fresh


@dataclass
class Visit:
    """A page, and what went wrong on it so far."""

    page: Page
    address: str
    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.add_init_script(_VIOLATIONS)
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self.problems.append(f"{self.page.url}: {error}"))
        self.page.on("requestfailed", self._on_failure)
        self.page.on("response", self._on_response)

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(f"{self.page.url}: {message.type}: {message.text}")

    def _on_failure(self, request: Request) -> None:
        if request.failure != _LEFT:
            self.problems.append(f"{self.page.url}: {request.url}: {request.failure}")

    def _on_response(self, response: Response) -> None:
        if response.status >= 400:
            self.problems.append(f"{self.page.url}: {response.url}: {response.status}")

    def go(self, path: str) -> int:
        """Opens a page of the server; gives the status of its answer."""
        answer = self.page.goto(self.address + path)
        assert answer is not None
        return answer.status

    def in_cluster(self, path: str) -> int:
        return self.go(f"/clusters/here/{path}".rstrip("/"))

    def type_token(self, token: str) -> None:
        self.page.get_by_label("Token").fill(token)
        self.page.get_by_role("button", name="Log in").click()

    def log_in(self, token: str) -> None:
        """Ends on the page of the cluster. The form is sent, and not typed: tests of the login do that."""
        form = {"credential": token, "next": "/clusters/here"}
        answer = self.page.context.request.post(
            f"{self.address}/login", form=form, headers={"Origin": self.address}, max_redirects=0
        )
        assert answer.status == 303, answer.text()
        assert self.in_cluster("") == 200

    def go_by_key(self, key: str) -> None:
        """By `g` and this one, for which a page waits a moment: on its clock none goes by, however slowly a
        busy machine types."""
        self.page.clock.set_fixed_time(time.time())
        self.page.keyboard.press("g")
        self.page.keyboard.press(key)

    def waits_for_news(self) -> None:
        self.page.locator("#live[data-state=live]").wait_for()


@dataclass(frozen=True)
class Shots:
    """Pictures of pages for people, who name a `folder` for them. Tests compare none of these, and each costs
    half as much as all rules of accessibility."""

    folder: str

    def take(self, page: Page, name: str, *, full_page: bool = True) -> None:
        if self.folder:
            page.screenshot(path=f"{self.folder}/{name}.png", full_page=full_page)


@dataclass
class Site:
    """A lab with its server's address and its logs."""

    lab: Lab
    address: str
    logs: SpokenLogs
    chromium: Chromium

    kept: dict[str, StorageState] = field(default_factory=dict)
    tabs: dict[str, Visit] = field(default_factory=dict)

    def tab(self, who: str, **options: Any) -> Visit:
        """One for all pages that somebody only looks at: each new one of another context is a new process of
        Chromium, which computes for a second before it shows anything."""
        if who not in self.tabs:
            self.tabs[who] = self.visit(who, **options)
        return self.tabs[who]

    def close(self) -> None:
        """Nobody listens to the server any more."""
        while self.tabs:
            self.tabs.popitem()[1].page.context.close()

    def logged_in(self, who: str = "viewer") -> StorageState:
        """What a browser keeps of who sees everything."""
        if who not in self.kept:
            visit = self.visit(who)
            self.kept[who] = visit.page.context.storage_state()
            visit.page.context.close()
        return self.kept[who]

    def visit(self, token: str = "", **options: Any) -> Visit:
        """`options` of the browser's context; with a token, logged in."""
        made = Visit(self.chromium.page(**options), self.address)
        if token:
            made.log_in(token)
        return made
