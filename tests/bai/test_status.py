"""What `bai get` says of a session comes from what is seen now, not from what was written down."""

from __future__ import annotations

from datetime import UTC, datetime

from bai.render.resources.status import session_json, session_note, session_rows, wait_line
from planner.model.types import Reason, Wait
from providers.base import Labels, Observed
from reconciler.values.records import Recorded
from reconciler.values.state import Actual, Existing

ID = "s-main1-00000000-g1"
LABELS = Labels("here", "c", "Session/p/s", 1, "d", "main1", "n1")


def record(**fields: object) -> Recorded:
    return Recorded("Session/p/s", "here", 1, "d", phase="RUNNING", kernels=(ID,), started_at=100.0, **fields)  # type: ignore[arg-type]


def ended(code: int = 137, reason: str = "out-of-memory") -> Existing:
    finished = datetime.fromtimestamp(160, UTC)
    kernel = Observed(ID, LABELS, "exited", exit_code=code, reason=reason, finished=finished)
    told = f"main1 exited with {code} ({reason})"
    return Existing(
        "Session/p/s",
        record(),
        "TERMINATED",
        (kernel,),
        result="failure",
        exit_codes={"main1": code},
        reason=told,
    )


def test_contact_that_is_back_is_not_missed_any_more() -> None:
    assert session_note(Existing("Session/p/s", record(reason="no contact with n3"), "RUNNING")) == ""


def test_an_end_that_is_not_recorded_yet_has_its_time() -> None:
    item = ended()
    actual = Actual("c", "here", {item.id: item})
    (row,) = session_rows(actual, (), now=100_000.0)
    assert row.age == "1m"
    assert session_json(row, item)["finishedAt"] == "1970-01-01T00:02:40Z"


def test_nothing_is_told_twice() -> None:
    assert session_note(ended()) == "failure; main1 exited with 137 (out-of-memory)"
    timed_out = Existing("Session/p/s", record(), "TERMINATED", exit_codes={"main1": 137}, reason="timeout")
    assert session_note(timed_out) == "exit main1=137; timeout"


def test_who_cannot_be_queued_has_no_place_in_the_queue() -> None:
    reasons = (Reason("fraction-not-enforced", "no node can"),)
    assert wait_line(Wait("Session/p/s", "all", 0, reasons)) == "fraction-not-enforced: no node can"
    assert (
        wait_line(Wait("Session/p/s", "all", 2, reasons)) == "2 in queue; fraction-not-enforced: no node can"
    )
