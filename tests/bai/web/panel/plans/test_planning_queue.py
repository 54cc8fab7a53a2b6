"""What is planned beside the answers: once for all, in turn, and never more than is bounded."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from bai.web.panel.plans import planning_queue
from bai.web.panel.plans.planning_queue import (
    MOST_OF_ONE,
    MOST_WAITING,
    PlanningQueue,
    Progress,
)
from reconciler.review.build import Tell
from schemas.problems.errors.plan import PlanError
from schemas.problems.errors.server import TooMuchPlanned
from tests.waiting import until


class Slow:
    """A queue whose plans are held until `free` is set; `begun` are those that were."""

    def __init__(self) -> None:
        self.queue = PlanningQueue(patience=0.0)
        self.free = threading.Event()
        self.begun: list[str] = []

    def ask(self, name: str, person: str = "ada", patience: float | None = None) -> str | Progress:
        def make(tell: Tell) -> str:
            tell("at it")
            self.begun.append(name)
            self.free.wait()
            return name

        return self.queue.ask(name, person, make, patience)

    def hold(self) -> None:
        """One is begun."""
        assert isinstance(self.ask("first"), Progress)
        until(lambda: self.begun == ["first"], "it is begun")


@pytest.fixture(autouse=True)
def no_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy this machine is."""
    monkeypatch.setattr(planning_queue, "time", SimpleNamespace(monotonic=lambda: 0.0))


@pytest.fixture
def slow() -> Iterator[Slow]:
    made = Slow()
    yield made
    made.free.set()
    until(lambda: made.queue._workers == 0, "all have ended")


def ended(slow: Slow, *names: str) -> bool:
    return all(slow.ask(name) == name for name in names)


def test_who_asks_hears_how_far_it_is_and_gets_it_when_it_is_there(slow: Slow) -> None:
    slow.hold()
    assert slow.ask("first") == Progress("at it", 0, 0)
    assert slow.ask("second", "bob") == Progress("", 1, 0)
    slow.free.set()
    until(lambda: ended(slow, "first", "second"), "both are there")
    assert slow.begun == ["first", "second"]


def test_it_is_made_once_for_all_who_ask_at_once(slow: Slow) -> None:
    found = list[str | Progress]()
    askers = [threading.Thread(target=lambda: found.append(slow.ask("one", patience=300))) for _ in range(8)]
    for each in askers:
        each.start()
    until(lambda: slow.begun == ["one"], "it is begun")
    slow.free.set()
    for each in askers:
        each.join()
    assert found == ["one"] * 8


def test_what_nobody_was_told_to_wait_for_is_made_anew(slow: Slow) -> None:
    slow.free.set()
    assert [slow.ask("one", patience=300) for _ in range(2)] == ["one", "one"]
    assert slow.begun == ["one", "one"]


def test_what_somebody_waited_for_is_kept_for_a_while_only(
    slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow.hold()
    slow.free.set()
    until(lambda: ended(slow, "first"), "it is there")
    assert slow.ask("first") == "first" and slow.begun == ["first"]
    monkeypatch.setattr(planning_queue, "KEPT", 0.0)
    assert slow.ask("first", patience=300) == "first" and slow.begun == ["first", "first"]


def test_what_is_wrong_is_told_to_all_who_wait() -> None:
    queue, free = PlanningQueue(patience=0.0), threading.Event()

    def make(tell: Tell) -> str:
        free.wait()
        raise PlanError(why="it cannot be")

    def is_wrong(person: str) -> bool:
        try:
            assert isinstance(queue.ask("one", person, make), Progress)
        except PlanError:
            return True
        return False

    assert not is_wrong("ada") and not is_wrong("bob")
    free.set()
    until(lambda: is_wrong("ada"), "ada is told")
    assert is_wrong("bob")


def test_who_asks_for_much_does_not_come_before_others(slow: Slow) -> None:
    slow.hold()
    for number in range(MOST_OF_ONE):
        assert isinstance(slow.ask(f"ada {number}"), Progress)
    assert slow.ask("bob", "bob") == Progress("", 1, 0)
    slow.free.set()
    until(lambda: len(slow.begun) == 2 + MOST_OF_ONE, "all were begun")
    assert slow.begun == ["first", "bob", *(f"ada {number}" for number in range(MOST_OF_ONE))]


def test_of_one_person_only_the_last_ones_wait(slow: Slow) -> None:
    slow.hold()
    for number in range(200):
        assert isinstance(slow.ask(f"ada {number}"), Progress)
    assert len(slow.queue._waiting) == MOST_OF_ONE and len(slow.queue._questions) == MOST_OF_ONE + 1
    slow.free.set()
    until(lambda: len(slow.begun) == 1 + MOST_OF_ONE, "the last were begun")
    assert slow.begun[1:] == [f"ada {number}" for number in range(200 - MOST_OF_ONE, 200)]


def test_of_all_people_only_so_many_wait(slow: Slow) -> None:
    slow.hold()
    for number in range(MOST_WAITING):
        assert isinstance(slow.ask(f"{number}", f"person {number}"), Progress)
    with pytest.raises(TooMuchPlanned):
        slow.ask("one more", "somebody else")
    assert isinstance(slow.ask("5", "somebody else"), Progress), "what waits already is nothing more"
    assert isinstance(slow.ask("first", "somebody else"), Progress)


def test_what_nobody_asks_for_any_more_is_not_begun(slow: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    slow.hold()
    assert isinstance(slow.ask("left", "bob"), Progress)
    monkeypatch.setattr(planning_queue, "UNASKED", 0.0)
    slow.free.set()
    until(lambda: slow.queue._workers == 0, "the queue is empty")
    assert slow.begun == ["first"] and not slow.queue._waiting
