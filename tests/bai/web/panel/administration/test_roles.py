"""Who gets which page of administration, and what is on none of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.bai.web.lab import Lab
from tests.bai.web.panel.administration.world import HOOK, managed
from tests.bai.web.panel.rendering import LABELLED_NODE, SECRET
from tests.bai.web.panel.test_pages import browser, logged_in

OPEN = (
    "projects", "projects/p", "users", "users/ada", "users/bob", "groups", "groups/default", "nodes",
    "nodes?state=active", "storage", "images", "audit", "audit?actor=loop&verb=create", "sessions?owner=ada",
)  # fmt: skip
OF_ALL = ("waves", "notifications")
"""For who sees all projects."""
OF_OPERATORS = ("storage/look",)
THEIRS = (f"projects/{SECRET}", f"users/{SECRET}-eve")
PAGES = (*OPEN, *OF_ALL, *OF_OPERATORS, *THEIRS)
STATUSES = {
    "viewer": (200, 200, 403, 200),
    "operator": (200, 200, 200, 200),
    "admin": (200, 200, 200, 200),
    "ours": (200, 403, 403, 404),
    "operator-of-p": (200, 403, 403, 404),
}
"""Of each kind of pages."""


@pytest.fixture(scope="module")
def secretive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """The world, in a process that knows its secrets."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("HUB_USER", "HUB_TOKEN", "MAIL_USER", "MAIL_PASSWORD"):
            patch.setenv(name, f"hush-{name.lower()}")
        patch.setenv(f"{SECRET.upper()}_HOOK", HOOK)
        made = Lab(tmp_path_factory.mktemp("lab"), node=LABELLED_NODE)
        managed(made)
        yield made
        made.close()


@pytest.mark.parametrize("who", STATUSES)
def test_each_sees_what_is_theirs_and_nobody_a_secret(secretive: Lab, who: str) -> None:
    visitor = logged_in(secretive, who)
    for kind, pages in enumerate((OPEN, OF_ALL, OF_OPERATORS, THEIRS)):
        for page in pages:
            for asks in ({}, {"HX-Request": "true"}):
                shown = visitor.get(f"/clusters/here/{page}", headers=asks)
                assert shown.status_code == STATUSES[who][kind], (who, page)
                assert "hush" not in shown.text, page
                if who in ("ours", "operator-of-p") and pages is not THEIRS:
                    assert SECRET not in shown.text, page


def test_the_other_project_is_there_for_who_sees_all(secretive: Lab) -> None:
    visitor = logged_in(secretive, "viewer")
    for page in ("projects", "users", "groups/default", "nodes", "storage", "images", "audit", *OF_ALL):
        shown = visitor.get(f"/clusters/here/{page}").text
        assert (SECRET in shown) is (page != "waves"), page


@pytest.mark.parametrize("page", PAGES)
def test_who_is_not_logged_in_learns_nothing(secretive: Lab, page: str) -> None:
    for address in (f"/clusters/here/{page}", f"/clusters/nowhere/{page}"):
        away = browser(secretive).get(address)
        assert away.status_code == 303 and away.headers["location"].startswith("/login?next=")


def test_what_is_kept_for_one_is_not_given_to_another(secretive: Lab) -> None:
    """In whichever order they ask."""
    for first, second in (("viewer", "ours"), ("ours", "viewer"), ("operator", "viewer")):
        logged_in(secretive, first).get("/clusters/here/storage")
        shown = logged_in(secretive, second).get("/clusters/here/storage").text
        assert (SECRET in shown) is (second == "viewer") and "storage/look" not in shown
        secretive.once()
