"""The phases of a session as a line."""

from __future__ import annotations

from pathlib import Path

from bai.web.panel.views.event_rows import EventRow
from bai.web.panel.views.phase_line import LENGTH, PhaseSpan, phase_line
from bai.web.panel.views.session_page import session_page
from tests.bai.web.lab import Lab
from tests.bai.web.panel.plans.following import GPU, FollowingLab, visitor
from tests.bai.web.panel.rendering import render, view_of
from tests.reconciler.lab import session

BEGAN = 1_767_323_045.0
"""2026-01-02T03:04:05Z"""


def events(*found: tuple[str, str, str]) -> list[EventRow]:
    """Time of day, phase before and after; given oldest first, as they happen."""
    rows = [EventRow(f"2026-01-02T{at}Z", before, after, "", "", "", "") for at, before, after in found]
    return rows[::-1]


def test_each_phase_is_as_long_as_it_took() -> None:
    found = phase_line(
        events(
            ("03:04:05", "", "PENDING"), ("03:05:45", "PENDING", "CREATING"),
            ("03:05:45", "CREATING", "RUNNING"),
        ),
        BEGAN + 1000,
    )  # fmt: skip
    assert found.spans == (
        PhaseSpan("PENDING", 0, 100),
        PhaseSpan("CREATING", 100, 4),
        PhaseSpan("RUNNING", 100, 900),
    )
    assert found.times == (("PENDING", "1m40s"), ("RUNNING", "15m"))


def test_what_has_ended_takes_no_more_time_and_what_came_again_is_one() -> None:
    found = phase_line(
        events(
            ("03:04:05", "", "RUNNING"), ("03:04:15", "RUNNING", "PENDING"),
            ("03:04:25", "PENDING", "RUNNING"), ("03:04:30", "RUNNING", "RUNNING"),
            ("03:04:45", "RUNNING", "TERMINATED"),
        ),
        BEGAN + 1e6,
    )  # fmt: skip
    assert [(each.phase, each.x, each.width) for each in found.spans] == [
        ("RUNNING", 0, 250), ("PENDING", 250, 250), ("RUNNING", 500, 500), ("TERMINATED", 996, 4),
    ]  # fmt: skip
    assert dict(found.times)["RUNNING"] == "30s"


def test_where_there_is_nothing_to_draw_nothing_is_drawn() -> None:
    assert phase_line([], BEGAN).spans == ()
    assert phase_line(events(("03:04:05", "", "PENDING")), BEGAN).spans == ()
    assert phase_line([EventRow("", "", "PENDING", "", "", "", "")], BEGAN).spans == ()
    gone = phase_line(events(("03:04:05", "", "PENDING"), ("03:04:15", "PENDING", "")), BEGAN + 1000)
    assert [(each.phase, each.width) for each in gone.spans] == [("PENDING", LENGTH)]


def test_the_page_draws_them_and_says_their_times(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.write("s", session("s"))
    lab.once()
    lab.once()
    page = render("session.html", page=session_page(view_of(lab), "p", "s"))
    assert '<svg class="phases"' in page and '<rect class="is-running"' in page
    lab.close()


def test_who_sees_all_is_led_to_what_a_documents_commit_changed_and_nobody_else(tmp_path: Path) -> None:
    lab = FollowingLab(tmp_path, approval=False)
    lab.push({"c.yaml": session("c", GPU)})
    lab.once()
    link = f"/clusters/here/compare?to={lab.commit}"
    page = visitor(lab).get("/clusters/here/sessions/p/c").text
    assert link in page
    assert visitor(lab).get(link).status_code == 200
    ours = visitor(lab, "ours").get("/clusters/here/sessions/p/c").text
    assert "/compare" not in ours and lab.commit[:12] in ours
    lab.close()
