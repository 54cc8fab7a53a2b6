"""Nodes that are asked side by side: how many at once, and what becomes of those that do not answer.

Time is a clock that the tests move; whoever waits waits for an event.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from providers.machines.poll import LIMIT, LONGEST_PAUSE, NodePoll, Question
from schemas.problems.errors.node import NodeUnreachable
from schemas.problems.errors.provider import ProviderError
from tests.waiting import until

PATIENCE = 60


class Time:
    """A clock that stands still until it is moved; whoever asks looks at it then."""

    def __init__(self) -> None:
        self.now = 0.0
        self.poll: NodePoll | None = None

    def move(self, seconds: float) -> None:
        self.now += seconds
        if self.poll is not None:
            self.poll.wake()


class Nodes:
    """What is asked of them. One in `hanging` answers when `mended` is called."""

    def __init__(self, time: Time, **given: int) -> None:
        self.time = time
        self.poll = time.poll = NodePoll(clock=lambda: time.now, **given)
        self.asked: Counter[str] = Counter()
        self.hanging: dict[str, threading.Event] = {}
        self.when_hanging: Callable[[], None] = lambda: None
        self.lock = threading.Lock()

    def ask(self, names: list[str], *, patient: bool = False) -> dict[str, Any]:
        questions = {
            name: Question(lambda name=name: self._answer(name), patient=patient, proves=not patient)  # type: ignore[misc]
            for name in names
        }
        return self.poll.ask(questions)

    def hang(self, *names: str) -> None:
        self.hanging |= {name: threading.Event() for name in names}

    def await_others(self) -> None:
        """Until all that do not hang have answered."""
        until(lambda: self.poll.awaited <= self.hanging.keys(), "the others have answered")

    def mend(self, *names: str) -> None:
        for name in names or tuple(self.hanging):
            self.hanging.pop(name).set()

    def _answer(self, name: str) -> str:
        with self.lock:
            self.asked[name] += 1
            held = self.hanging.get(name)
        if held is not None:
            self.when_hanging()
            assert held.wait(PATIENCE)
        return f"{name} is well"


def silent(answers: Mapping[str, Any]) -> dict[str, str]:
    return {
        node: str(error.fields["why"]) for node, error in answers.items() if isinstance(error, ProviderError)
    }


@pytest.fixture
def nodes() -> Iterator[Nodes]:
    found = Nodes(Time(), at_once=4, apart=2)
    yield found
    found.mend()
    until(lambda: not found.poll.open, "nobody is asked any more")


def past_the_limit(nodes: Nodes) -> None:
    """Who hangs hangs until the others have answered and the limit is over."""

    def wait() -> None:
        nodes.await_others()
        nodes.time.move(LIMIT)

    nodes.when_hanging = wait


NAMES = [f"n{number}" for number in range(20)]


def test_all_are_asked_in_their_order_and_so_many_at_once(nodes: Nodes) -> None:
    busy, most, lock = 0, 0, threading.Lock()
    full = threading.Event()

    def answer() -> str:
        nonlocal busy, most
        with lock:
            busy += 1
            most = max(most, busy)
            if busy == 4:
                full.set()
        assert full.wait(PATIENCE)
        with lock:
            busy -= 1
        return "well"

    answers = nodes.poll.ask({name: Question(answer) for name in NAMES})
    assert list(answers.items()) == [(name, "well") for name in NAMES]
    assert most == 4


def test_one_that_hangs_has_no_answer_and_the_others_have_theirs(nodes: Nodes) -> None:
    nodes.hang("n3")
    past_the_limit(nodes)
    answers = nodes.ask(NAMES)
    assert silent(answers) == {"n3": "no answer within 20 s"}
    assert [answers[name] for name in NAMES if name != "n3"] == [
        f"{name} is well" for name in NAMES if name != "n3"
    ]


def test_more_that_hang_than_are_asked_at_once_hold_up_nobody(nodes: Nodes) -> None:
    """They have all places, and leave them to the others long before their limit."""
    hanging = NAMES[:4]
    nodes.hang(*hanging)
    began = threading.Barrier(4)

    def wait() -> None:
        if began.wait(PATIENCE) == 0:
            nodes.time.move(LIMIT / 2)
            nodes.await_others()
            nodes.time.move(LIMIT / 2)

    nodes.when_hanging = wait
    assert sorted(silent(nodes.ask(NAMES))) == hanging


def test_an_answer_that_comes_bit_by_bit_may_take_longer_but_not_for_ever(nodes: Nodes) -> None:
    said = 0

    def speak(times: int) -> str:
        nonlocal said
        until(lambda: nodes.poll.awaited == {"n0"}, "the others have answered")
        for _ in range(times):
            nodes.time.move(LIMIT - 1)
            nodes.poll.heard()
            said += 1
        return "well"

    def speak_on() -> str:
        speak(6)
        nodes.time.move(LIMIT - 1)
        until(lambda: not nodes.poll.awaited, "it is waited for no longer")
        return "well"

    well = {name: Question(lambda: "well") for name in NAMES}
    assert not silent(nodes.poll.ask({**well, "n0": Question(lambda: speak(5))}))
    assert silent(nodes.poll.ask({**well, "n0": Question(speak_on)})) == {"n0": "no answer within 20 s"}
    assert said == 5 + 6


def test_one_that_did_not_answer_is_asked_again_at_growing_intervals(nodes: Nodes) -> None:
    nodes.hang("n3")
    past_the_limit(nodes)
    nodes.ask(NAMES)
    first = nodes.asked["n3"]
    assert silent(nodes.ask(NAMES)) == {"n3": "no answer within 20 s"}, "not asked while it is being asked"
    nodes.mend("n3")
    until(lambda: not nodes.poll.open, "what was asked has an end")
    assert silent(nodes.ask(NAMES)) == {"n3": "no answer within 20 s"}, "its pause is not over"
    assert nodes.asked["n3"] == first == 1
    pauses = []
    for _ in range(8):
        nodes.hang("n3")
        nodes.when_hanging = lambda: nodes.time.move(LIMIT)
        asked, pause = nodes.asked["n3"], 0.0
        while nodes.asked["n3"] == asked:
            nodes.time.move(1.0)
            pause += 1.0
            assert "n3" in silent(nodes.ask(NAMES))
        pauses.append(pause)
        nodes.mend("n3")
        until(lambda: not nodes.poll.open, "what was asked has an end")
    assert pauses == [1, 2, 4, 8, 16, 32, LONGEST_PAUSE, LONGEST_PAUSE]


def test_one_that_is_back_is_seen_in_the_next_pass_after_its_pause(nodes: Nodes) -> None:
    nodes.hang("n3")
    past_the_limit(nodes)
    nodes.ask(NAMES)
    nodes.mend("n3")
    until(lambda: not nodes.poll.open, "what was asked has an end")
    nodes.time.move(1.0)
    assert not silent(nodes.ask(NAMES))
    assert not silent(nodes.ask(NAMES)), "and is one of the others again"


def test_those_that_do_not_answer_are_hardly_waited_for(nodes: Nodes) -> None:
    """More of them than are asked apart, and each pass has all others."""
    hanging = NAMES[:6]
    nodes.hang(*hanging)
    began = threading.Barrier(len(hanging))

    def wait() -> None:
        with contextlib.suppress(threading.BrokenBarrierError):
            nodes.time.move(LIMIT / 4)
            if began.wait(PATIENCE) == 0:
                nodes.await_others()
                nodes.time.move(LIMIT)

    nodes.when_hanging = wait
    assert sorted(silent(nodes.ask(NAMES))) == sorted(hanging)
    nodes.mend()
    until(lambda: not nodes.poll.open, "what was asked has an end")
    nodes.hang(*hanging)
    nodes.when_hanging = lambda: nodes.time.move(1.0)
    nodes.time.move(LONGEST_PAUSE)
    before = nodes.time.now
    assert sorted(silent(nodes.ask(NAMES))) == sorted(hanging)
    assert nodes.time.now - before < LIMIT
    assert sum(nodes.asked[name] for name in hanging) <= len(hanging) + 2, "no more than two of them at once"


def test_who_fails_at_once_is_asked_like_any_other(nodes: Nodes) -> None:
    asked = Counter[str]()

    def refuse() -> str:
        asked["n0"] += 1
        raise NodeUnreachable(node="n0", why="refused")

    questions = {**{name: Question(lambda: "well") for name in NAMES}, "n0": Question(refuse)}
    for _ in range(3):
        assert silent(nodes.poll.ask(questions)) == {"n0": "refused"}
    assert asked["n0"] == 3


def test_who_fails_after_a_while_is_asked_apart(nodes: Nodes) -> None:
    asked = Counter[str]()

    def fail() -> str:
        asked["n0"] += 1
        nodes.time.move(5.0)
        raise NodeUnreachable(node="n0", why="no route")

    questions = {**{name: Question(lambda: "well") for name in NAMES}, "n0": Question(fail)}
    for _ in range(3):
        assert silent(nodes.poll.ask(questions)) == {"n0": "no route"}
    assert asked["n0"] == 1


def test_what_may_take_long_says_nothing_about_the_node(nodes: Nodes) -> None:
    nodes.hang("n3")
    past_the_limit(nodes)
    assert "n3" in silent(nodes.ask(NAMES, patient=True))
    assert "n3" in silent(nodes.ask(NAMES, patient=True)), "the question is still open"
    assert nodes.asked["n3"] == 1
    nodes.mend("n3")
    assert not silent(nodes.ask(NAMES)), "other questions are asked"


def test_an_answer_that_proves_nothing_makes_nobody_one_of_the_others_again(nodes: Nodes) -> None:
    """As one that is remembered does, while the node itself still hangs."""
    nodes.hang("n3")
    past_the_limit(nodes)
    nodes.ask(NAMES)
    nodes.time.move(LONGEST_PAUSE)
    remembered = {name: Question(lambda: "remembered", proves=False) for name in NAMES}
    assert silent(nodes.poll.ask(remembered)) == {"n3": "no answer within 20 s"}
    nodes.mend("n3")
    until(lambda: not nodes.poll.open, "what was asked has an end")
    assert silent(nodes.poll.ask(remembered)) == {"n3": "no answer within 20 s"}
    assert not silent(nodes.ask(NAMES))
    assert not silent(nodes.poll.ask(remembered))


def test_what_is_no_failure_of_a_node_is_raised(nodes: Nodes) -> None:
    def fail() -> str:
        raise AssertionError("a mistake of ours")

    with pytest.raises(AssertionError, match="a mistake of ours"):
        nodes.poll.ask({**{name: Question(lambda: "well") for name in NAMES}, "n0": Question(fail)})


def test_a_node_alone_is_waited_for(nodes: Nodes) -> None:
    """It holds up nobody; and whoever asks is who waits."""
    threads = []

    def answer() -> str:
        threads.append(threading.current_thread())
        nodes.time.move(3 * LIMIT)
        return "well"

    assert nodes.poll.ask({"n0": Question(answer)}) == {"n0": "well"}
    assert threads == [threading.current_thread()]
