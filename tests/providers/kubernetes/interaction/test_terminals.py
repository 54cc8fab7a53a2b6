"""A person's terminal on the main process of a pod of a real cluster."""

from __future__ import annotations

import pexpect
import pytest

from providers.kubernetes.interaction.attach import attach
from schemas.problems.errors.kernel import NotRunning
from tests.providers.kubernetes.interaction.calling import Caller, left, until_size
from tests.providers.kubernetes.interaction.conftest import Pods
from tests.waiting import until

pytestmark = pytest.mark.xdist_group("kubernetes")


def prompted(child: pexpect.spawn) -> None:  # type: ignore[type-arg]
    """The shell answers, and waits for the next line."""
    child.sendline("echo he''re")
    child.expect("here")
    child.expect("[#$] ")


def test_a_terminal_is_left_and_found_again(pods: Pods) -> None:
    pod = pods.run("exec sh", stdin=True, tty=True)
    caller = Caller(pods.kubeconfig, pod)
    child = caller.terminal("attach")
    prompted(child)
    child.sendline("X=kept")
    until_size(child, "31 97")
    child.send("\x10")
    child.send("\x11")
    assert left(child) == 0
    child = caller.terminal("attach")
    child.sendline("echo is-$X; exit 9")
    child.expect("is-kept")
    assert left(child) == 9
    with pytest.raises(NotRunning):
        attach(pods.client, pod, None)


def test_what_fills_the_screen_is_told_to_draw_it_anew(pods: Pods) -> None:
    text = "trap 'echo draws' WINCH; touch /up; while :; do sleep 0.1; done"
    pod = pods.run(text, stdin=True, tty=True)
    until(lambda: "up" in pods.said(pod, "ls", "/").split(), "it hears of the window")
    for _ in range(2):
        child = Caller(pods.kubeconfig, pod).terminal("attach")
        child.expect("draws")
        child.send("\x10\x11")
        assert left(child) == 0


def test_the_exit_code_is_that_of_the_run_that_was_seen(pods: Pods) -> None:
    pod = pods.run("exec sh", stdin=True, tty=True, restart="Always")
    child = Caller(pods.kubeconfig, pod).terminal("attach")
    prompted(child)
    child.sendline("exit 7")
    assert left(child) == 7


def test_without_a_terminal_there_is_output_until_the_end(pods: Pods) -> None:
    pod = pods.run("while ! [ -e /go ]; do echo up; sleep 0.05; done; echo out; echo err >&2; exit 3")
    with Caller(pods.kubeconfig, pod).beside(what="attach") as started:
        assert started.stdout is not None and started.stdout.readline() == "up\n"
        pods.let_go(pod, "/go")
        *before, last = started.stdout.read().splitlines()
        assert set(before) <= {"up"} and last == "out"
        assert started.stderr is not None and started.stderr.read() == "err\n"
        assert started.wait(60) == 3
