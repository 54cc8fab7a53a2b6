"""Notifications as `bai notify list` has them, without what nobody may read."""

from __future__ import annotations

import pytest

from bai.queries.facts.notifications import notification_boxes, waiting_count
from bai.web.panel.administration.notifications import notification_rows, without_secrets
from tests.bai.web.lab import Lab
from tests.bai.web.panel.administration.world import HOOK
from tests.bai.web.panel.rendering import assert_harmless, hostile, render, view_of
from tests.bai.web.panel.test_pages import logged_in


def test_figures_are_those_of_the_command(world: Lab) -> None:
    view = view_of(world)
    rows = notification_rows(view)
    told = notification_boxes(view.repository, view.store, "here")
    assert [(row.name, row.sent, row.failed, row.lost, row.waiting) for row in rows] == [
        (each.name, box.sent, box.failed, box.lost, waiting_count(box)) for each, box in told
    ]
    ops, people = rows
    assert (ops.sent, ops.failed, ops.lost, ops.waiting, ops.tries) == (5, 3, 2, 7, 3)
    assert (ops.last_good, len(ops.news), ops.news[0].resource) == (False, 5, "Session/p/s0")
    assert (people.sent, people.at, people.last, people.news) == (0, "", "", ())


def test_it_tells_what_goes_to_whom(world: Lab) -> None:
    ops, people = notification_rows(view_of(world))
    assert ops.to == ("a webhook, whose address is in env/ZEBRA_HOOK",)
    assert [(each.name, each.severity) for each in ops.events] == [
        ("session-failed", "error"),
        ("session-waiting", "warning"),
        ("node-lost", "error"),
    ]
    assert ops.rules == (
        "of waiting after 10m",
        "at most 10 messages in 5m, more goes together into one",
    )
    assert people.to == ("mail to ada@here.example", "from bai@here.example, by mail.here.example (starttls)")
    assert people.rules == (
        "only of zebra",
        "not when it is over",
        "of waiting after 30m",
        "at most 1 message in 1h, more is only counted",
    )


def test_addresses_end_with_their_host(world: Lab) -> None:
    page = render("administration/notifications.html", rows=notification_rows(view_of(world)))
    assert "refused by https://hooks.zebra.example/…" in page
    assert "hush" not in page and "services" not in page and HOOK not in page


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("see https://u:pw@h.example:8/x?token=1#a, then", "see https://h.example:8/… then"),
        ("HTTP 200", "HTTP 200"),
        ("ssh://git@h.example/a b", "ssh://h.example/… b"),
        ("to https://h.example.", "to https://h.example."),
        ("\x1b[1m", "\\x1b[1m"),
    ],
)
def test_secrets_of_addresses_are_cut(text: str, shown: str) -> None:
    assert without_secrets(text) == shown


@pytest.mark.parametrize(
    ("who", "status"), [("viewer", 200), ("admin", 200), ("ours", 403), ("operator-of-p", 403)]
)
def test_they_are_for_who_sees_everything(world: Lab, who: str, status: int) -> None:
    assert logged_in(world, who).get("/clusters/here/notifications").status_code == status


def test_what_is_hostile_stays_text(world: Lab) -> None:
    assert_harmless(
        render("administration/notifications.html", rows=hostile(notification_rows(view_of(world))))
    )
