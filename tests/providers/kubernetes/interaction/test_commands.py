"""Commands in the pods of a real cluster."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pexpect
import pytest
import yaml

from providers.kubernetes.interaction.execute import execute
from providers.kubernetes.objects.names import PodRef
from schemas.problems.errors.kernel import KernelNotFound, NotRunning
from schemas.problems.errors.provider import ProviderError, ProviderUnavailable
from tests.providers.kubernetes.interaction.calling import Caller, left, until_size
from tests.providers.kubernetes.interaction.conftest import Line, Pods, client_of
from tests.waiting import until

pytestmark = pytest.mark.xdist_group("kubernetes")
TRAP = "trap 'echo caught; exit 5' INT; echo up; while :; do sleep 0.1; done"


def test_both_sides_send_all_the_time_and_neither_waits_for_the_other(pods: Pods) -> None:
    much = os.urandom(20_000_000)
    done = Caller(pods.kubeconfig, pods.run()).run("cat", text=much)
    assert (done.returncode, done.stdout == much) == (0, True), done.stderr


def test_what_cannot_be_run_is_said_without_a_runtimes_words(pods: Pods) -> None:
    pod = pods.run()
    caller = Caller(pods.kubeconfig, pod)
    assert b"OCI" not in caller.run("/etc").stderr
    child = caller.terminal("tty", "no-such")
    child.expect("no-such: the container has no such program in its PATH")
    assert left(child) == 127


def test_output_that_looks_like_a_number_or_a_runtimes_refusal_is_the_commands(pods: Pods) -> None:
    caller = Caller(pods.kubeconfig, pods.run())
    words = "OCI runtime exec failed: exec failed"
    done = caller.run("sh", "-c", f"echo 4711 >&2; echo {words}; exit 127")
    assert (done.returncode, done.stdout, done.stderr) == (127, f"{words}\n".encode(), b"4711\n")


def test_an_interrupt_reaches_the_command(pods: Pods) -> None:
    pod = pods.run(securityContext={"runAsUser": 1000})
    with Caller(pods.kubeconfig, pod).beside("sh", "-c", TRAP) as started:
        assert started.stdout is not None and started.stdout.readline() == "up\n"
        started.send_signal(signal.SIGINT)
        out, said = started.communicate(timeout=60)
        assert (out, started.returncode) == ("caught\n", 5), said


def test_output_is_whole_however_often_it_is_interrupted(pods: Pods) -> None:
    pod = pods.run()
    text = "trap '' INT; i=0; while ! [ -e /go ]; do echo line $((i += 1)); done; echo end"
    with Caller(pods.kubeconfig, pod).beside("sh", "-c", text) as started:
        assert started.stdout is not None
        for _ in range(5):
            assert started.stdout.readline().startswith("line ")
            started.send_signal(signal.SIGINT)
        pods.said(pod, "touch", "/go")
        *lines, last = started.stdout.read().splitlines()
        assert lines == [f"line {i}" for i in range(6, 6 + len(lines))] and last == "end"
        assert started.wait(60) == 0


def test_an_image_without_a_shell_has_its_commands_run_as_they_are(pods: Pods) -> None:
    pod = pods.run()
    pods.said(pod, "rm", "/bin/sh")
    caller = Caller(pods.kubeconfig, pod)
    assert caller.run("cat", text=b"typed").stdout == b"typed"
    for program, code, why in (
        ("no-such", 127, b"the container has no such program in its PATH"),
        ("/etc/passwd", 126, b"is no program that may be executed in the container"),
    ):
        done = caller.run(program)
        assert done.returncode == code and why in done.stderr, done.stderr
    with caller.beside("ash", "-c", TRAP) as started:
        assert started.stdout is not None and started.stdout.readline() == "up\n"
        started.send_signal(signal.SIGINT)
        _, said = started.communicate(timeout=60)
        assert "the interrupt could not be passed on; the command may still run" in said
        assert started.returncode == 1


def test_a_command_that_nobody_hears_any_more_ends(pods: Pods) -> None:
    pod = pods.run()
    with Caller(pods.kubeconfig, pod).beside("yes", "said to nobody") as started:
        assert started.stdout is not None and started.stdout.readline()
        started.stdout.close()
        assert started.wait(60) != 0
    until(lambda: "said to nobody" not in pods.said(pod, "ps"), "it has ended")


def test_a_command_on_a_terminal_follows_the_window(pods: Pods) -> None:
    child = Caller(pods.kubeconfig, pods.run()).terminal("tty", "sh")
    child.expect("[#$] ")
    until_size(child, "31 97")
    child.setwinsize(40, 120)
    until_size(child, "40 120")
    child.sendline("echo $TERM; sleep 1000")
    child.expect("vt100")
    for _ in range(60):  # While the shell starts the command, Ctrl-C is for neither of the two.
        child.sendintr()
        if child.expect(["[#$] ", pexpect.TIMEOUT], timeout=1) == 0:
            break
    else:
        raise AssertionError("Ctrl-C did not end the command")
    child.sendline("exit 4")
    assert left(child) == 4


def test_who_does_not_run_or_is_not_there_has_no_commands(pods: Pods) -> None:
    with pytest.raises(NotRunning):
        execute(pods.client, pods.ended(), ("true",), stdin=None, tty=False)
    with pytest.raises(KernelNotFound):
        execute(pods.client, PodRef(pods.namespace, "nobody"), ("true",), stdin=None, tty=False)


def test_who_may_not_is_told_what_the_server_says(pods: Pods) -> None:
    pod = pods.run()
    client = pods.account("reader", {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]})
    with pytest.raises(ProviderError, match='cannot get resource "pods/exec"') as refused:
        execute(client, pod, ("true",), stdin=None, tty=False)
    assert refused.value.code == "BAI-E0300" and "docs/kubernetes.md" in refused.value.hint


def test_credentials_that_end_are_renewed_for_a_command_too(pods: Pods, tmp_path: Path) -> None:
    pod = pods.run()
    config = yaml.safe_load(pods.kubeconfig.read_text())
    good = config["users"][0]["user"]["token"]
    plugin = tmp_path / "plugin"
    plugin.write_text(
        f"#!/bin/sh\necho asked >> {tmp_path}/asked\n"
        f'printf \'{{"apiVersion": "client.authentication.k8s.io/v1", "status": {{"token": "%s"}}}}\' '
        f"$(cat {tmp_path}/token)\n"
    )
    plugin.chmod(0o755)
    (tmp_path / "token").write_text(good)
    config["users"][0]["user"] = {
        "exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin)}
    }
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
    client = client_of(tmp_path / "kubeconfig")
    client.get(pod.path)
    client.access.credentials._status = {"token": "ended"}  # type: ignore[attr-defined]
    from providers.kubernetes.interaction.channels import open_channels

    channels = open_channels(client, pod, "exec", ("echo", "in"), typed=False, tty=False)
    assert b"".join(data for _, data in channels.frames()) == b"in\n"
    channels.close()
    assert (tmp_path / "asked").read_text().count("asked") == 2


def test_a_connection_that_breaks_off_is_no_end_of_the_command(
    pods: Pods, line: Line, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    import threading

    pod = pods.run()
    caught: list[BaseException] = []

    def call() -> None:
        try:
            execute(line.client, pod, ("sh", "-c", "touch /up; sleep 1000"), stdin=None, tty=False)
        except BaseException as error:
            caught.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    until(lambda: "up" in pods.said(pod, "ls", "/"), "the command runs")
    line.cut()
    thread.join(60)
    assert isinstance(caught[0], ProviderUnavailable), caught
