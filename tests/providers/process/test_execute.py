"""A command inside a kernel has its groups, its view and its environment, and gives its exit code."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pexpect
import pytest

from providers.machines.signals import signal_handlers
from providers.process.interaction import relay
from providers.process.linux import cgroup
from providers.process.provider import ProcessProvider
from providers.process.supervision.kernel_process import hold_main_process
from tests.providers.process.kernels import output, said, script, spec

SYS_ADMIN = 21
TRAP = "trap 'echo interrupted; exit 5' INT; echo ready; while :; do sleep 0.05; done"
CALLER = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background inherits it ignored
from pathlib import Path
from providers.process.provider import ProcessProvider
provider = ProcessProvider(Path(sys.argv[1]), sandbox=sys.argv[2] == "True", cgroups=sys.argv[3] == "True")
sys.exit(provider.execute(sys.argv[4], tuple(sys.argv[6:]), tty=sys.argv[5] == "tty"))
"""
REPOSITORY = Path(__file__).resolve().parents[3]


def caller(provider: ProcessProvider, *argv: str, tty: bool = False) -> list[str]:
    sandbox, groups = provider._wanted
    options = [str(provider.root.path), str(sandbox), str(groups), spec().id, "tty" if tty else "plain"]
    return [sys.executable, "-c", CALLER, *options, *argv]


def run(provider: ProcessProvider, *argv: str, text: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = caller(provider, *argv)
    return subprocess.run(command, input=text, capture_output=True, cwd=REPOSITORY, timeout=120, check=False)


@pytest.fixture
def kernel(provider: ProcessProvider) -> ProcessProvider:
    provider.create(script("echo inside > mine; echo up; sleep 300", env={"A": "1"}, secret_env={"B": "2"}))
    said(provider, spec().id, b"up")
    return provider


def test_a_main_process_that_executes_itself_again_and_again_is_not_without_environment(
    make: Callable[..., ProcessProvider],
) -> None:
    """While it becomes another program it has none."""
    provider = make("bare")
    again = "echo '#!/bin/sh' >again; echo 'exec \"$0\"' >>again; chmod +x again; echo up; exec ./again"
    provider.create(script(again, secret_env={"B": "2"}))
    said(provider, spec().id, b"up")
    record = provider.root.read(spec().id)
    assert record is not None
    for _ in range(100):
        with hold_main_process(record, lambda: record, lambda: False) as found:
            assert found.env["B"] == "2"


def test_it_is_limited_as_the_kernel_is(grouped: ProcessProvider) -> None:
    cpu = min(os.sched_getaffinity(0))
    grouped.create(spec(cpus=(cpu,)))
    done = run(
        grouped, "sh", "-c", "grep Cpus_allowed_list /proc/self/status; echo $$; cat /proc/self/cgroup"
    )
    lines = done.stdout.decode().splitlines()
    assert lines[0].split() == ["Cpus_allowed_list:", str(cpu)]
    assert f"/{grouped.base}/{spec().id}" in done.stdout.decode()


def test_what_it_leaves_behind_ends_with_the_kernel(kernel: ProcessProvider) -> None:
    command = "setsid sleep 300 >/dev/null 2>&1 & echo $!"
    assert run(kernel, "sh", "-c", command).returncode == 0
    kernel.stop(spec().id, grace=0)
    record = kernel.root.read(spec().id)
    assert record is not None and cgroup.members(record.groups) == set()


def test_a_terminal_is_given_when_asked_for(kernel: ProcessProvider) -> None:
    command = caller(
        kernel, "sh", "-c", "test -t 0 && test -t 1 && stty size && read x && echo got-$x; exit 4", tty=True
    )
    child = pexpect.spawn(
        command[0], command[1:], cwd=str(REPOSITORY), timeout=60, use_poll=True, dimensions=(33, 77)
    )
    child.expect("33 77")
    child.sendline("word")
    child.expect("got-word")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 4


def test_control_c_reaches_the_command_in_a_terminal(kernel: ProcessProvider) -> None:
    command = caller(
        kernel,
        "sh",
        "-c",
        "trap 'echo interrupted; exit 5' INT; echo ready; while :; do sleep 0.05; done",
        tty=True,
    )
    child = pexpect.spawn(command[0], command[1:], cwd=str(REPOSITORY), timeout=60, use_poll=True)
    child.expect("ready")
    child.sendintr()
    child.expect("interrupted")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 5


def test_entering_a_sandbox_gives_no_more_power_than_it_has(make: Callable[..., ProcessProvider]) -> None:
    provider = make("sandbox")
    provider.create(script("grep CapEff /proc/self/status; echo up; sleep 300"))
    said(provider, spec().id, b"up")
    inside = output(provider, spec().id).decode().split()[1]
    done = run(provider, "grep", "CapEff", "/proc/self/status")
    assert done.stdout.decode().split() == ["CapEff:", inside]
    assert not int(inside, 16) >> SYS_ADMIN & 1


def test_who_is_terminated_leaves_the_terminal_in_order(kernel: ProcessProvider) -> None:
    command = caller(kernel, "sh", "-c", "echo ready; sleep 1000", tty=True)
    child = pexpect.spawn(command[0], command[1:], cwd=str(REPOSITORY), timeout=60, use_poll=True)
    child.expect("ready")
    assert not child.getecho()
    child.kill(signal.SIGTERM)
    child.expect(pexpect.EOF)
    assert child.getecho()
    child.close()
    assert child.exitstatus == 143


def test_what_it_leaves_running_holds_nobody_up(kernel: ProcessProvider) -> None:
    done = run(kernel, "sh", "-c", "(while :; do echo more; sleep 0.01; done) & echo begun")
    assert done.returncode == 0 and done.stdout.startswith((b"begun", b"more"))


def test_input_that_nobody_reads_holds_nobody_up(kernel: ProcessProvider) -> None:
    assert run(kernel, "true", text=b"x" * (1 << 20)).returncode == 0


def test_output_that_nobody_reads_ends_the_command(kernel: ProcessProvider) -> None:
    process = subprocess.Popen(caller(kernel, "yes"), stdout=subprocess.PIPE, cwd=REPOSITORY)
    assert process.stdout is not None
    process.stdout.read(10)
    process.stdout.close()
    assert process.wait(timeout=60) == 141


def test_an_interrupt_reaches_the_command(kernel: ProcessProvider) -> None:
    process = subprocess.Popen(caller(kernel, "sh", "-c", TRAP), stdout=subprocess.PIPE, cwd=REPOSITORY)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGINT)
    assert process.stdout.read() == b"interrupted\n"
    assert process.wait(timeout=60) == 5


SLOW_HELPER = """
from providers.process.interaction import execute
execute._BOOT = execute._BOOT.replace(
    ";enter_and_exec",
    ";from providers.process.interaction import enter;pass_on=enter._relay_signals;"
    "enter._relay_signals=lambda child:(open('/home/work/gate').read(),pass_on(child));enter_and_exec",
)
"""


def test_an_interrupt_waits_for_a_helper_that_is_behind_its_command(
    make: Callable[..., ProcessProvider],
) -> None:
    provider = make("sandbox")
    provider.create(script("mkfifo gate; echo up; sleep 300"))
    said(provider, spec().id, b"up")
    python, option, program, *arguments = caller(provider, "sh", "-c", TRAP)
    process = subprocess.Popen(
        [python, option, SLOW_HELPER + program, *arguments], stdout=subprocess.PIPE, cwd=REPOSITORY
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGINT)
    (provider.root.folder(spec().id) / "scratch" / "gate").write_text("go")
    assert process.stdout.read() == b"interrupted\n"
    assert process.wait(timeout=60) == 5


def test_an_interrupt_waits_for_a_command_that_begins() -> None:
    def start(errors: int) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            ["sh", "-c", TRAP], stdin=pipe, stdout=pipe, stderr=errors, start_new_session=True, bufsize=0
        )
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        signal.raise_signal(signal.SIGINT)
        return process

    with signal_handlers([signal.SIGINT], signal.default_int_handler):
        assert relay.run_with_pipes(start, io.BytesIO()) == 5
