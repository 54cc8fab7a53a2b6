"""What `bai apply` and `bai destroy` say of what they did, of who waits, and of what comes next."""

from __future__ import annotations

import os
import pty
import signal
from pathlib import Path

import pytest

from bai.cli.plans.execute_plan import result_lines
from reconciler.values.plan import Plan
from reconciler.values.results import ActionResult, ApplyResult, Outcome
from tests.bai.conftest import Repo, new_repo
from tests.waiting import until

EMPTY = Plan("r", "here", "", "", "", complete=True, actions=())


@pytest.fixture
def waiting(tmp_path: Path) -> Repo:
    """A session that no node is large enough for."""
    repo = new_repo(tmp_path)
    repo.session("giant", "true", kind="batch", cpu="4096")
    return repo


def test_who_only_waits_is_queued(waiting: Repo) -> None:
    said = waiting.ok("apply", "--yes")
    assert "Session/demo/giant: queued, 1 in line in group local (6/6)" in said.out
    assert "giant: creat" not in said.out
    *_, applied, next_step = said.out.splitlines()
    assert applied.startswith("Applied: 6 done in ")
    assert next_step.startswith(
        "1 session waits: a loop (`bai reconcile`, `bai serve`) or the next `bai apply`"
    )
    assert "`bai explain SESSION`" in next_step
    assert waiting.ok("destroy", "--yes").out.splitlines()[-1].startswith("Destroyed: 6 done in ")


def result(*outcomes: Outcome, interrupted: bool = False) -> ApplyResult:
    results = tuple(ActionResult(f"Session/p/s{at}", "create", each) for at, each in enumerate(outcomes))
    return ApplyResult("a", "d", results, 0.0, 2.0, interrupted)


def test_what_an_interruption_left_is_said() -> None:
    said = result_lines(EMPTY, result("done", "stopped", "stopped", interrupted=True))
    lines = [line.text for line in said]
    assert lines[:2] == ["not begun: Session/p/s1", "not begun: Session/p/s2"]
    assert lines[2].startswith("Interrupted: 1 done, 2 not begun in ")
    assert lines[3] == "What was done stays done; `bai apply` goes on with the rest."


def test_what_failed_is_gone_on_with() -> None:
    *_, sum_, next_step = result_lines(EMPTY, result("done", "failed", "skipped"), destroys=True)
    assert sum_.text.startswith("Not everything was destroyed: 1 done, 1 failed, 1 skipped in ")
    assert next_step.text == "What was done stays done; `bai destroy` goes on with the rest."


def _heed_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_a_question_that_is_interrupted_changes_nothing(waiting: Repo, tmp_path: Path) -> None:
    """Ctrl-C before anything has begun."""
    terminal, end = pty.openpty()
    with (tmp_path / "said").open("wb") as said:
        # Tests that a script runs in the background ignore the interrupt, and so would what they start.
        started = waiting.start("apply", stdin=end, stdout=said, stderr=said, preexec_fn=_heed_interrupts)
    until(lambda: b"Go ahead?" in (tmp_path / "said").read_bytes() or started.poll() is not None)
    started.send_signal(signal.SIGINT)
    assert started.wait(120) == 1
    for each in (terminal, end):
        os.close(each)
    text = (tmp_path / "said").read_text()
    assert "Nothing was changed." in text or "Interrupted" in text, text
    assert "not applied" in waiting.ok("get").out
