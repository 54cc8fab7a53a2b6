"""Every replica asked once, all side by side: for commands that look once."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace

from reconciler.observe.readiness.questions import Question, Replica, Run
from reconciler.observe.readiness.standing import (
    Answer,
    Ask,
    Standing,
    after_answer,
    at_rest,
    late,
    without_question,
)
from reconciler.observe.readiness.workers import Workers

LONGEST = 10.0
"""Seconds that one is waited for at most, whatever its service allows."""
MOST = 256
"""Questions at a time."""
MARGIN = 0.5


@dataclass(frozen=True, slots=True)
class Known:
    """What one look leaves for the next, of the same kernels."""

    run: Run
    standing: Standing


def ask_once(
    replicas: Mapping[str, Replica], ask: Ask, now: float, before: Mapping[str, Known]
) -> dict[str, Known]:
    """How each of them stands after one question more than `before`. One that nobody has looked at before is
    what it is now, and has been since its kernels were started. Whether one is dead takes somebody who keeps
    asking: nobody is asked that."""
    questions = {
        name: replace(each.readiness, timeout=min(LONGEST, each.readiness.timeout))
        for name, each in replicas.items()
        if each.runs and each.readiness is not None
    }
    answers = _Round(replicas, questions, ask).wait() if questions else {}
    found = {}
    for name, replica in replicas.items():
        known, since, run = before.get(name), now, replica.run
        standing = Standing()
        if known is not None and known.run.goes_on_in(run):
            standing, run = known.standing, known.run.with_later(run)
        if standing.readiness is None and run.began is not None:
            since = min(now, run.began)
        if not replica.runs:
            standing = at_rest(standing, replica.phase, since)
        elif name not in questions:
            standing = without_question(standing, since)
        else:
            question = questions[name]
            answer = answers.get(name) or late(question)
            standing = after_answer(standing, answer, question.failures, since)
        found[name] = Known(run, standing)
    return found


class _Round:
    def __init__(self, replicas: Mapping[str, Replica], questions: Mapping[str, Question], ask: Ask) -> None:
        self._replicas = replicas
        self._questions = questions
        self._ask = ask
        self._left = deque(questions)
        self._answers: dict[str, Answer] = {}
        self._change = threading.Condition()

    def wait(self) -> dict[str, Answer]:
        """What was answered by when it had to be; who hangs beyond that is left hanging."""
        turns = -(-len(self._questions) // MOST)
        longest = max(each.timeout for each in self._questions.values())
        end = time.monotonic() + turns * (longest + MARGIN)
        workers = Workers("replica-round")
        for _ in range(min(MOST, len(self._questions))):
            workers.start(self._work)
        with self._change:
            self._change.wait_for(self._is_over, max(0.0, end - time.monotonic()))
            self._left.clear()
            return dict(self._answers)

    def _is_over(self) -> bool:
        return len(self._answers) == len(self._questions)

    def _work(self) -> None:
        while True:
            with self._change:
                if not self._left:
                    return
                name = self._left.popleft()
            answer = self._asked(name)
            with self._change:
                self._answers[name] = answer
                self._change.notify_all()

    def _asked(self, name: str) -> Answer:
        try:
            return self._ask(self._replicas[name], self._questions[name])
        except Exception as error:
            # What no provider may raise: of one replica, and nobody else's trouble.
            return Answer(False, f"{self._questions[name].what} cannot be asked: {type(error).__name__}")
