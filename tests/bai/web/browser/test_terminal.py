"""A terminal in a browser, on real programs: native sessions of this machine."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect

from bai.web.app import create_app
from bai.web.auth.roles import StaticAccess
from bai.web.cluster_loops import ClusterLoops
from bai.web.panel.terminal.terminals import Terminals
from reconciler.controller.loop import Loop
from reconciler.controller.loop_options import LoopOptions
from reconciler.workspace.workspace import Workspace
from tests.bai.web.browser.site import Shots, Visit
from tests.bai.web.browser.terminal_screen import note, rows, shows
from tests.bai.web.browser.test_looks import WIDE, violations
from tests.bai.web.lab import doors, serving
from tests.harness.processes import having
from tests.lab.browser import Chromium
from tests.reconciler.lab import new_store
from tests.waiting import until

pytestmark = pytest.mark.xdist_group("browser")
EXAMPLE = Path(__file__).resolve().parents[4] / "examples" / "quickstart"
SESSION = """
apiVersion: bai/v1
kind: Session
metadata: {name: lab, project: demo}
spec:
  type: interactive
  tty: true
  resourceGroup: local
  resources: {cpu: 1, memory: 64MiB}
  command: [sh, -c, 'echo main; while read -r line; do echo "got <$line>"; done']
"""
_REMEMBERED_SOCKETS = """
window.sockets = [];
window.WebSocket = class extends WebSocket {
  constructor(...given) { super(...given); window.sockets.push(this); }
};
"""
_REMEMBERED_NOTES = """() => {
  const note = document.querySelector(".terminal-note");
  window.notes = [];
  new MutationObserver(() => window.notes.push(note.textContent))
    .observe(note, {childList: true, characterData: true, subtree: true});
}"""
_BROUGHT_ANEW = """async () => {
  const text = await (await fetch(location.href)).text();
  const page = new DOMParser().parseFromString(text, "text/html");
  document.querySelector("[data-terminal]").replaceWith(page.querySelector("[data-terminal]"));
  document.dispatchEvent(new Event("htmx:afterSwap"));
}"""
PATH = "/clusters/here/sessions/demo/lab/terminal"
SLEEP = str(900_000 + os.getpid())
"""A number of seconds that no other run on this machine sleeps."""
HOSTILE = (
    r"printf '\033]0;TITLE\007\033]2;TITLE\007\033]52;c;c3RvbGVu\007"
    r"\033]8;;https://evil.test/\007li''nk\033]8;;\007 %s\n' done"
)


@dataclass
class Native:
    """A server of this machine's sessions."""

    loop: Loop
    address: str
    chromium: Chromium
    terminals: Terminals

    def visit(self, token: str = "operator", **options: object) -> Visit:
        made = Visit(self.chromium.page(**options), self.address)
        made.log_in(token)
        return made


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory, chromium: Chromium) -> Iterator[Native]:
    folder = tmp_path_factory.mktemp("native")
    shutil.copytree(EXAMPLE, folder / "repo", ignore=shutil.ignore_patterns("sessions"))
    (folder / "repo" / "lab.yaml").write_text(SESSION)
    state = folder / "state" / "store.db"
    new_store(state).close()
    workspace = Workspace.open(folder / "repo", state=state)
    hub, lines = ClusterLoops(), []
    loop = Loop(workspace, LoopOptions("loop", 30), log=lines.append)
    hub.add(loop)
    app = create_app(hub, StaticAccess(doors()))
    try:
        assert loop.once(), lines
        until(lambda: loop.once() and _runs(hub), lambda: f"the session runs: {lines}")
        with serving(app, chromium.listening()) as address:
            yield Native(loop, address, chromium, app.state.terminals)
    finally:
        app.state.terminals.close()
        for kernel in workspace.provider.observe().kernels:
            workspace.provider.remove(kernel.id)
        hub.close()


def _runs(hub: ClusterLoops) -> bool:
    done = hub.clusters["here"].good
    there = done.actual.existing.get("Session/demo/lab") if done and done.actual else None
    return there is not None and there.phase == "RUNNING"


def open_terminal(visit: Visit, program: str = "a shell") -> Page:
    page = visit.page
    visit.go(PATH)
    page.get_by_label("Program").select_option(program)
    page.get_by_role("button", name="Open", exact=True).click()
    expect(note(page)).to_have_text("Connected.")
    return page


def test_a_shell_is_used_left_by_a_reload_found_again_and_ends(native: Native, shots: Shots) -> None:
    visit = native.visit()
    visit.go(PATH.removesuffix("/terminal"))
    visit.page.get_by_role("link", name="Terminal").click()
    page = open_terminal(visit)
    page.keyboard.type("X=kept; echo he''re\n")
    shows(page, "here")

    page.keyboard.type("stty size\n")
    until(lambda: re.search(r"^\d+ \d+ *$", rows(page), re.MULTILINE), "it knows its size")
    before = re.findall(r"^(\d+ \d+) *$", rows(page), re.MULTILINE)[-1]
    page.set_viewport_size({"width": 700, "height": 500})
    page.keyboard.type("clear; while stty size; do sleep 0.2; done\n")
    until(
        lambda: (found := re.findall(r"^(\d+ \d+) *$", rows(page), re.MULTILINE)) and found[-1] != before,
        lambda: f"it is told another size than {before}",
    )
    page.keyboard.press("Control+C")

    page.evaluate(
        "text => { const data = new DataTransfer(); data.setData('text/plain', text);"
        " document.querySelector('.xterm-helper-textarea').dispatchEvent("
        "new ClipboardEvent('paste', {clipboardData: data, bubbles: true})) }",
        "echo pas''ted " + "x" * 3000 + " | wc -c\n",
    )
    page.keyboard.press("Enter")
    shows(page, "3008")

    page.set_viewport_size(WIDE)
    shots.take(page, "terminal-open", full_page=False)
    assert not violations(page)
    page.reload()
    expect(note(page)).to_have_text("Connected.")
    page.keyboard.type("clear; echo still-$X\n")
    shows(page, "still-kept")
    page.keyboard.type("exit 5\n")
    expect(note(page)).to_have_text("It ended with 5.")
    expect(page.get_by_role("button", name="Open", exact=True)).to_be_visible()
    until(lambda: len(native.terminals) == 0, "nothing is left of it")
    assert not visit.problems
    page.context.close()


def test_closing_ends_the_shell_and_what_it_runs(native: Native) -> None:
    visit = native.visit()
    page = open_terminal(visit)
    page.keyboard.type(f"echo pid-$$-end; sleep {SLEEP}\n")
    until(lambda: re.search(r"pid-\d+-end", rows(page)), "it runs")
    until(_sleeping, "its program runs")
    page.get_by_role("button", name="Close").click()
    expect(note(page)).to_have_text("Closed.")
    until(lambda: not _sleeping(), "its program is gone")
    until(lambda: len(native.terminals) == 0, "its place is free")
    assert not visit.problems
    page.context.close()


def _sleeping() -> bool:
    return ["sleep", SLEEP] in having(SLEEP).values()


def test_the_main_program_is_attached_to_and_goes_on(native: Native) -> None:
    visit = native.visit()
    page = open_terminal(visit, "the main program")
    page.keyboard.type("one\n")
    shows(page, "got <one>")
    page.get_by_role("button", name="Close").click()
    expect(note(page)).to_have_text("Closed.")
    page.get_by_role("button", name="Open", exact=True).click()
    expect(note(page)).to_have_text("Connected.")
    page.keyboard.type("two\n")
    shows(page, "got <two>")
    page.get_by_role("button", name="Close").click()
    assert not visit.problems
    page.context.close()


def test_a_connection_that_is_lost_is_regained_and_nothing_is_lost_with_it(native: Native) -> None:
    visit = native.visit()
    visit.page.add_init_script(_REMEMBERED_SOCKETS)
    page = open_terminal(visit)
    page.keyboard.type("echo fir''st\n")
    shows(page, "first")
    page.evaluate(_REMEMBERED_NOTES)  # Of which one may be gone before somebody looks.
    page.evaluate("sockets.at(-1).close()")
    until(lambda: "The connection was lost; trying again." in page.evaluate("notes"), "it says so")
    page.keyboard.type("echo sec''ond\n")
    expect(note(page)).to_have_text("Connected again.")
    shows(page, "second")
    assert rows(page).count("first") == 1 and not visit.problems
    page.get_by_role("button", name="Close").click()
    page.context.close()


def test_what_a_program_writes_stays_on_the_screen(native: Native) -> None:
    """No title, nothing in the clipboard, no link; and questions that it asked are not answered again."""
    visit = native.visit()
    page = open_terminal(visit)
    title = page.title()
    page.keyboard.type(HOSTILE + "\n")
    shows(page, "link done")
    assert page.title() == title
    assert page.locator(".xterm a, .xterm-screen [href]").count() == 0
    page.locator(".xterm-rows").get_by_text("link done").hover(force=True)
    assert page.locator(".xterm-cursor-pointer").count() == 0
    page.keyboard.type(r"clear; printf '\033[6n'; read -rs -d R x; clear; echo q''uiet" + "\n")
    shows(page, "quiet")
    page.reload()
    expect(note(page)).to_have_text("Connected.")
    page.keyboard.type("echo af''ter\n")
    shows(page, "after")
    assert "\x1b[" not in rows(page) and ";1R" not in rows(page)
    page.get_by_role("button", name="Close").click()
    assert not visit.problems, json.dumps(visit.problems)
    page.context.close()


def test_nothing_is_sent_before_the_script_is_there(native: Native) -> None:
    """Whoever is faster than the page: the form has the token of the login, and no address gets it."""
    visit, held = native.visit(), list[Route]()
    page = visit.page

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/terminal-*.js", hold)
    with page.expect_request("**/terminal-*.js"):
        page.goto(native.address + PATH, wait_until="commit")
    button = page.get_by_role("button", name="Open", exact=True)
    expect(button).to_be_disabled()
    page.get_by_label("Program").press("Enter")
    held[0].continue_()
    button.click()
    expect(note(page)).to_have_text("Connected.")
    assert page.url == native.address + PATH
    page.get_by_role("button", name="Close").click()
    expect(note(page)).to_have_text("Closed.")
    # As news bring it, where the session did not run when the page was opened.
    page.evaluate(_BROUGHT_ANEW)
    button.click()
    expect(note(page)).to_have_text("Connected.")
    page.get_by_role("button", name="Close").click()
    assert not visit.problems
    page.context.close()


def test_viewers_have_no_terminal(native: Native) -> None:
    visit = native.visit("viewer")
    visit.go(PATH.removesuffix("/terminal"))
    assert visit.page.get_by_role("link", name="Terminal").count() == 0
    assert visit.go(PATH) == 403
    visit.page.context.close()
