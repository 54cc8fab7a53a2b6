"""What a replica's answers make of it."""

from __future__ import annotations

from dataclasses import replace

from reconciler.observe.readiness.questions import Question
from reconciler.observe.readiness.standing import Answer, Standing, after_answer, after_liveness, at_rest

GOOD, BAD = Answer(True), Answer(False, "it is answered with 500")
ALIVE = Question("command", "`check`", failures=2, grace=60)


def test_the_first_answer_counts_at_once() -> None:
    assert after_answer(Standing(), GOOD, 3, 5.0).ready
    bad = after_answer(Standing(), BAD, 3, 5.0).readiness
    assert bad is not None and (bad.ready, bad.since, bad.why) == (False, 5.0, BAD.why)


def test_failures_in_a_row_make_it_unready_and_one_good_answer_ready() -> None:
    standing = after_answer(Standing(), GOOD, 3, 1.0)
    for now in (2.0, 3.0):
        standing = after_answer(standing, BAD, 3, now)
    standing = after_answer(standing, GOOD, 3, 4.0)
    for now in (5.0, 6.0):
        standing = after_answer(standing, BAD, 3, now)
        assert standing.readiness is not None and (standing.ready, standing.readiness.since) == (True, 1.0)
    standing = after_answer(standing, BAD, 3, 7.0)
    assert standing.readiness is not None and (standing.ready, standing.readiness.since) == (False, 7.0)
    standing = after_answer(standing, GOOD, 3, 8.0)
    assert standing.readiness is not None
    assert (standing.ready, standing.readiness.since, standing.readiness.why) == (True, 8.0, "")


def test_what_says_the_same_is_the_same_object() -> None:
    standing = after_answer(Standing(), BAD, 3, 1.0)
    assert after_answer(standing, BAD, 3, 2.0).readiness is standing.readiness
    other = after_answer(standing, Answer(False, "refused"), 3, 2.0).readiness
    assert other is not None and (other.why, other.since) == ("refused", 1.0)


def test_it_is_dead_only_once_its_grace_is_over() -> None:
    standing = after_answer(Standing(), GOOD, 3, 0.0)
    for age in (10.0, 40.0, 59.0, 60.0):
        standing = after_liveness(standing, BAD, ALIVE, age, age)
    assert standing.readiness is not None and not standing.readiness.dead
    standing = after_liveness(standing, BAD, ALIVE, 61.0, 61.0)
    assert standing.readiness is not None and not standing.readiness.dead
    standing = after_liveness(standing, BAD, ALIVE, 66.0, 66.0)
    assert standing.readiness is not None
    assert standing.readiness.dead == "it failed its liveness probe 2 times in a row: it is answered with 500"
    assert (standing.readiness.ready, standing.readiness.since) == (True, 0.0)
    assert after_liveness(standing, BAD, ALIVE, 71.0, 71.0).readiness is standing.readiness


def test_who_has_answered_once_has_no_grace_left() -> None:
    standing = after_liveness(Standing(), GOOD, ALIVE, 1.0, 1.0)
    for age in (2.0, 3.0):
        standing = after_liveness(standing, BAD, ALIVE, age, age)
    assert standing.readiness is not None and standing.readiness.dead and not standing.ready


def test_a_good_answer_takes_back_that_it_is_dead() -> None:
    standing = after_liveness(Standing(), BAD, replace(ALIVE, failures=1, grace=0), 1.0, 1.0)
    assert standing.readiness is not None and standing.readiness.dead
    standing = after_liveness(standing, GOOD, ALIVE, 2.0, 2.0)
    assert standing.readiness is not None and not standing.readiness.dead


def test_one_that_does_not_run_is_not_ready() -> None:
    standing = at_rest(after_answer(Standing(), GOOD, 3, 1.0), "PULLING", 2.0)
    assert standing.readiness is not None
    assert (standing.ready, standing.readiness.since, standing.readiness.why) == (False, 2.0, "it is PULLING")


def test_a_reason_fits_on_a_terminal_whatever_a_replica_says() -> None:
    hostile = Answer(False, "\x1b]0;owned\x07\n" + "x" * 100_000)
    readiness = after_answer(Standing(), hostile, 1, 0.0).readiness
    assert readiness is not None
    assert len(readiness.why) == 200 and readiness.why.isprintable()
