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
    after_liveness,
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
_Asked = tuple[str, str]
"""Identity, and which probe."""
_Questions = dict[_Asked, Question]


@dataclass(frozen=True, slots=True)
class Known:
    """What one look leaves for the next, of the same kernels."""

    run: Run
    standing: Standing


def ask_once(
    replicas: Mapping[str, Replica], ask: Ask, now: float, before: Mapping[str, Known]
) -> dict[str, Known]:
    """How each of them stands after one question of each kind more than `before`. One that nobody has looked
    at before is what it is now, and has been since its kernels were started. Whether one is dead takes
    somebody who keeps asking: liveness is asked of those alone that have never answered it."""
    goes_on = {
        name: known
        for name, each in replicas.items()
        if (known := before.get(name)) is not None and known.run.goes_on_in(each.run)
    }
    lived = {name for name, known in goes_on.items() if known.standing.lived}
    questions: _Questions = {}
    for name, each in replicas.items():
        for kind, question in (("readiness", each.readiness), ("liveness", each.liveness)):
            if each.runs and question is not None and not (kind == "liveness" and name in lived):
                questions[name, kind] = replace(question, timeout=min(LONGEST, question.timeout))
    answers = _Round(replicas, questions, ask).wait() if questions else {}
    found = {}
    for name, replica in replicas.items():
        known, run = goes_on.get(name), replica.run
        standing = known.standing if known is not None else Standing()
        run = known.run.with_later(run) if known is not None else run
        since = now
        if standing.readiness is None and run.began is not None:
            since = min(now, run.began)
        found[name] = Known(run, _after_round(replica, standing, questions, answers, since))
    return found


def _after_round(
    replica: Replica,
    standing: Standing,
    questions: _Questions,
    answers: Mapping[_Asked, Answer],
    since: float,
) -> Standing:
    if not replica.runs:
        return at_rest(standing, replica.phase, since)
    lives, asked = replica.liveness is not None, (replica.identity, "readiness")
    if asked in questions:
        question = questions[asked]
        answer = answers.get(asked) or late(question)
        standing = after_answer(standing, answer, question.failures, since, also_lives=lives)
    else:
        standing = without_question(standing, since, also_lives=lives)
    asked = replica.identity, "liveness"
    if asked in questions:
        answer = answers.get(asked) or late(questions[asked])
        standing = after_liveness(standing, answer, questions[asked], 0.0, since)
    return standing


class _Round:
    def __init__(self, replicas: Mapping[str, Replica], questions: _Questions, ask: Ask) -> None:
        self._replicas = replicas
        self._questions = questions
        self._ask = ask
        self._left = deque(questions)
        self._answers: dict[_Asked, Answer] = {}
        self._change = threading.Condition()

    def wait(self) -> dict[_Asked, Answer]:
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
                asked = self._left.popleft()
            answer = self._answer(asked)
            with self._change:
                self._answers[asked] = answer
                self._change.notify_all()

    def _answer(self, asked: _Asked) -> Answer:
        try:
            return self._ask(self._replicas[asked[0]], self._questions[asked])
        except Exception as error:
            # What no provider may raise: of one replica, and nobody else's trouble.
            return Answer(False, f"{self._questions[asked].what} cannot be asked: {type(error).__name__}")
