"""Back-off: what may pass is tried again, what will not is said at once, and how often is said in the end."""

from __future__ import annotations

import time

import pytest

from providers.machines.retry import PAUSES, QUICK, with_backoff
from schemas.problems.errors.node import NodeUnreachable
from schemas.problems.errors.provider import ProviderUnavailable


class Far:
    """Refuses as often as `refusals`, then answers."""

    def __init__(self, refusals: int) -> None:
        self.refusals = refusals
        self.asked = 0
        self.slept: list[float] = []

    def __call__(self) -> str:
        self.asked += 1
        if self.asked <= self.refusals:
            raise NodeUnreachable(node="n", why="connection refused", hint="start it")
        return "here"

    def ask(self, *, may_pass: bool = True) -> str:
        return with_backoff(self, lambda _: may_pass, sleep=self.slept.append)


@pytest.mark.parametrize("refusals", range(len(PAUSES) + 1))
def test_who_refuses_for_a_moment_is_reached(refusals: int) -> None:
    far = Far(refusals)
    assert far.ask() == "here"
    assert far.slept == list(PAUSES[:refusals])


def test_who_keeps_refusing_is_said_with_the_number_of_attempts() -> None:
    far = Far(100)
    with pytest.raises(NodeUnreachable) as caught:
        far.ask()
    assert caught.value.message == "Node n cannot be reached: connection refused (tried 4 times)"
    assert (caught.value.hint, far.asked) == ("start it", 4)


def test_what_will_not_pass_is_said_at_once() -> None:
    far = Far(1)
    with pytest.raises(NodeUnreachable) as caught:
        far.ask(may_pass=False)
    assert (far.asked, far.slept) == (1, [])
    assert "tried" not in caught.value.message


def test_who_was_waited_for_is_not_waited_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """An attempt that took its whole time-out has been patient already."""
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    far = Far(100)

    def slow() -> str:
        nonlocal now
        now += QUICK + 1
        return far()

    with pytest.raises(ProviderUnavailable):
        with_backoff(slow, lambda _: True, sleep=far.slept.append)
    assert (far.asked, far.slept) == (1, [])
