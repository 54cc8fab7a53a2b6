"""The page of a terminal: for whom there is one, and what it says where none can be opened."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from bai.web.panel.pages import POLICY
from bai.web.panel.terminal.routes import TERMINAL_POLICY
from bai.web.panel.terminal.terminal_page import TerminalPage
from providers.declared import DeclaredProvider
from tests.bai.web.lab import Lab
from tests.bai.web.panel.rendering import SECRET, assert_harmless, hostile, render, two_projects
from tests.bai.web.panel.test_pages import logged_in

OWN = "/clusters/here/sessions/p/own"


@pytest.fixture
def site(lab: Lab) -> Iterator[Lab]:
    two_projects(lab)
    yield lab


def test_operators_of_the_project_have_a_page_and_a_link_to_it(site: Lab) -> None:
    for who in ("operator", "admin", "operator-of-p"):
        answer = logged_in(site, who).get(f"{OWN}/terminal")
        assert answer.status_code == 200 and f'data-terminal="{OWN}/terminal"' in answer.text
        assert re.search(r'name="token" value="[0-9a-f]{64}"', answer.text)
        assert SECRET not in answer.text
        assert f"{OWN}/terminal" in logged_in(site, who).get(OWN).text
    # Pages that are kept are those of somebody who may as much.
    for who in ("viewer", "ours"):
        assert logged_in(site, who).get(f"{OWN}/terminal").status_code == 403
        assert f"{OWN}/terminal" not in logged_in(site, who).get(OWN).text


def test_no_browser_sends_its_form_before_the_script_is_there(site: Lab) -> None:
    """Else the token of the login would stand in an address."""
    page = logged_in(site, "operator").get(f"{OWN}/terminal").text
    (form,) = re.findall(r'<form class="filters">.*?</form>', page, re.DOTALL)
    assert 'name="token"' in form
    buttons = re.findall(r"<button[^>]*>", form)
    assert len(buttons) == 2
    assert all(re.search(r' disabled>$| type="button"', each) for each in buttons), buttons


def test_others_sessions_are_answered_as_those_that_are_not_there(site: Lab) -> None:
    browser = logged_in(site, "operator-of-p")
    theirs, none = (
        browser.get(f"/clusters/here/sessions/{SECRET}/{name}/terminal") for name in (f"{SECRET}-run", "none")
    )
    assert theirs.status_code == none.status_code == 404
    assert theirs.text.replace(f"{SECRET}-run", "none") == none.text
    assert browser.get("/clusters/here/sessions/p/none/terminal").status_code == 404
    assert browser.get(f"{OWN}/terminal?kernel=none").status_code == 404


def test_its_page_alone_makes_styles_and_none_makes_scripts(site: Lab) -> None:
    browser = logged_in(site, "operator")
    assert browser.get(f"{OWN}/terminal").headers["content-security-policy"] == TERMINAL_POLICY
    assert browser.get(OWN).headers["content-security-policy"] == POLICY
    assert "script-src 'self';" in TERMINAL_POLICY and TERMINAL_POLICY.count("unsafe") == 1


def test_it_says_where_terminals_are_opened_and_where_none_are(
    site: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = logged_in(site, "operator")
    assert "no container that runs" in browser.get("/clusters/here/sessions/p/waiting/terminal").text
    monkeypatch.setattr(site.loop.workspace, "provider", DeclaredProvider())
    assert "The provider declared opens no terminals." in browser.get(f"{OWN}/terminal").text
    monkeypatch.setattr(site.loop, "leads", lambda: False)
    monkeypatch.setattr(site.loop, "leader", lambda: "another one")
    answer = browser.get(f"{OWN}/terminal")
    assert "stands by" in answer.text and "another one" in answer.text and "<select" not in answer.text


def test_hostile_names_stay_text() -> None:
    for obstacle in ("", "x"):
        page = TerminalPage("p", "own", "RUNNING", ("main1",), "main1", obstacle)
        assert_harmless(render("terminal.html", page=hostile(page)))
