"""Probes of replicas that are native sessions: commands that do their worst, and ports."""

from __future__ import annotations

import socket
import threading
import time
from dataclasses import replace

import pytest

from providers.process.provider import ProcessProvider
from reconciler.observe.readiness.ask import ask
from reconciler.observe.readiness.questions import Question, Replica, Run
from reconciler.observe.readiness.standing import Answer
from tests.harness.ports import free_port
from tests.harness.processes import having
from tests.providers.process.kernels import ended, said, script, spec
from tests.reconciler.readiness.replicas import CLUSTER
from tests.waiting import until

KERNEL = spec().id
ONE = Replica("Session/vision/s", KERNEL, "RUNNING", Run(1, (KERNEL,), {}))


def asked(provider: ProcessProvider, *command: str, seconds: float = 60) -> Answer:
    question = Question("command", f"`{command[0]}`", command=command, timeout=seconds)
    return ask(provider, CLUSTER, ONE, question)


@pytest.fixture
def runs(provider: ProcessProvider) -> ProcessProvider:
    provider.create(script("echo here; exec sleep 600"))
    said(provider, KERNEL, b"here")
    return provider


def test_a_command_answers_by_how_it_ends(runs: ProcessProvider) -> None:
    assert asked(runs, "sh", "-c", "echo all is well") == Answer(True)
    assert asked(runs, "sh", "-c", "exit 3").why == "`sh` ended with 3"
    gone = asked(runs, "no-such-program")
    assert not gone.good and "no-such-program" in gone.why


def test_a_command_that_hangs_is_ended_with_its_time(runs: ProcessProvider) -> None:
    """Also one that does not want to, and what it has started."""
    word = f"86{free_port()}"
    hostile = f"trap '' HUP TERM INT; sleep {word} & sleep {word}; sleep {word}"
    found = asked(runs, "sh", "-c", hostile, seconds=1)
    assert (found.good, found.late, found.why) == (False, True, "`sh`: no answer within 1 s")
    until(lambda: not having(hostile), "it is ended")


def test_a_command_that_prints_without_end_is_cut_off(runs: ProcessProvider) -> None:
    found = asked(runs, "yes", seconds=120)
    assert (found.good, found.late, found.why) == (False, False, "`yes`: it prints more than 1 MiB")


def test_a_command_may_leave_something_behind(runs: ProcessProvider) -> None:
    """Which keeps nobody waiting."""
    assert asked(runs, "sh", "-c", "sleep 600 & exit 0", seconds=60).good


def test_a_replica_that_has_ended_is_refused(provider: ProcessProvider) -> None:
    provider.create(script("exit 0"))
    ended(provider, KERNEL)
    assert asked(provider, "true").refused
    found = ask(provider, CLUSTER, ONE, Question("tcp", "port http", port=free_port(), timeout=60))
    assert found.refused and found.why == f"port http cannot be reached: Kernel {KERNEL} does not run"


def test_many_replicas_are_asked_at_a_time(runs: ProcessProvider) -> None:
    answers: list[Answer] = []
    threads = [
        threading.Thread(target=lambda: answers.append(asked(runs, "sh", "-c", "sleep 0.2")))
        for _ in range(10)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert answers == [Answer(True)] * 10


def test_a_port_is_asked_over_the_providers_own_way(runs: ProcessProvider) -> None:
    port = free_port()  # Nobody else's when the listener has gone.
    with socket.create_server(("127.0.0.1", port)):
        question = Question("tcp", "port http", port=port, timeout=60)
        assert ask(runs, CLUSTER, ONE, question) == Answer(True)
        silent = ask(runs, CLUSTER, ONE, replace(question, how="http", path="/", timeout=0.3))
        assert silent.late
    began = time.monotonic()
    closed = ask(runs, CLUSTER, ONE, question)
    assert closed.refused and closed.why == "port http cannot be reached: connection refused"
    assert time.monotonic() - began < 60
