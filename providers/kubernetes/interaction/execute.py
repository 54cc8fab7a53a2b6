"""Running one more command in a kernel's container, joined to the caller's standard streams or terminal.

The API has no numbers of processes, so that nothing could be told to a command without a terminal. A shell of
the image says its own number first and then becomes the command; an interrupt is sent to that number by a
second command. An image without a shell has its commands run as they are.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any

from providers.containers import failed_start
from providers.containers.programs import REQUIRE_PROGRAM
from providers.kubernetes.api.client import ApiClient
from providers.kubernetes.api.credentials import NAME
from providers.kubernetes.api.errors import ApiRefusal, api_errors
from providers.kubernetes.interaction.channels import STDERR, STDOUT, Channels, open_channels
from providers.kubernetes.interaction.container_state import require_running
from providers.kubernetes.objects.names import PodRef
from providers.machines import terminal
from providers.machines.remote_terminal import RemoteTerminal
from schemas.problems.errors.base import BaiError
from schemas.problems.errors.provider import ProviderError

SHELL = "/bin/sh"
_BEFORE = f"""echo "$$" >&2
[ -z "$1" ] || export TERM="$1"
shift
{REQUIRE_PROGRAM}"""
BEGIN = f'{_BEFORE}exec "$@"\n'
BEGIN_AND_DRAIN = f"""{_BEFORE}"$@"
code=$?
cat >/dev/null 2>&1
exit "$code"
"""
"""For input that has an end: what the command has not read is, before its end is told. API servers hang up on
who leaves some, and lose how the command ended."""
ENDING = 2.0
"""Seconds in which a command that could not be interrupted may turn out to have ended."""
_NUMBER = re.compile(rb"([1-9][0-9]{0,9})\r?\n")
_FIRST_LINE = 16
"""Bytes at most of the line with the number."""


def execute(
    client: ApiClient, pod: PodRef, argv: tuple[str, ...], *, stdin: IO[bytes] | None, tty: bool
) -> int:
    """The command's exit code; 126 and 127 when it cannot be run. Raises NotRunning, ProviderError."""
    if not argv or any("\0" in word for word in argv):
        raise ProviderError(provider=NAME, why="there is no command to run, or it holds a NUL byte")
    with api_errors(pod.name):
        require_running(client, pod)
        command = begin_exec(client, pod, argv, typed=stdin is not None, tty=tty)
    with contextlib.closing(command):
        _relay(command, stdin, tty)
    if command.abandoned:
        raise ProviderError(
            provider=NAME, why="the interrupt could not be passed on; the command may still run"
        )
    return _exit_code(command.channels, argv[0])


def open_terminal(
    client: ApiClient, pod: PodRef, argv: tuple[str, ...], size: tuple[int, int]
) -> RemoteTerminal:
    """Raises as `execute`."""
    if not argv or any("\0" in word for word in argv):
        raise ProviderError(provider=NAME, why="there is no command to run, or it holds a NUL byte")
    with api_errors(pod.name):
        require_running(client, pod)
        command = begin_exec(client, pod, argv, typed=True, tty=True)
    opened = RemoteTerminal(
        command.channels,
        (data for _, data in command.output()),
        exit_code=lambda: parse_outcome(command.channels.status).code,
        finish=command.hang_up,
        errors=lambda: api_errors(pod.name),
    )
    opened.resize(*size)
    return opened


def _exit_code(channels: Channels, program: str) -> int:
    """Raises ProviderError."""
    outcome = parse_outcome(channels.status)
    if outcome.code is not None:
        return outcome.code
    sentence, code = failed_start.explain_failure(program, outcome.why.encode())
    print(f"bai: {sentence}", file=sys.stderr, flush=True)
    return code


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a command ended: its exit code, or why it did not start."""

    code: int | None
    why: str = ""


def parse_outcome(status: bytes) -> Outcome:
    """From the `Status` that ends a command. Raises ProviderError where it says neither. Pure."""
    try:
        said: dict[str, Any] = json.loads(status or b"{}")
        if said.get("status") == "Success":
            return Outcome(0)
        for cause in (said.get("details") or {}).get("causes") or ():
            if cause.get("reason") == "ExitCode":
                return Outcome(int(cause["message"]))
        why = str(said.get("message") or "")
    except (ValueError, TypeError, AttributeError, KeyError):
        why = ""
    begins = why.find(failed_start.PREFIX.decode())
    if begins >= 0:
        return Outcome(None, why[begins:])
    raise ProviderError(
        provider=NAME, why=why[:2000] or "the connection to the command was lost; it may still run"
    )


class ExecCommand:
    """A command that was begun: its channels, and its number in the container where a shell has told it."""

    def __init__(self, client: ApiClient, pod: PodRef, channels: Channels, *, tty: bool) -> None:
        self.channels = channels
        self.abandoned = False
        self.number = ""
        self._client = client
        self._pod = pod
        self._talks = STDOUT if tty else STDERR
        self._frames = channels.frames()
        self._over = threading.Event()

    def output(self) -> Iterator[tuple[int, bytes]]:
        """Raises ProviderUnavailable."""
        with api_errors(self._pod.name):
            yield from self._frames
        self._over.set()

    def close(self) -> None:
        """A command that nobody hears any more is told so: it would wait for ever to be heard."""
        self.channels.close()
        if not self._over.is_set() and not self.abandoned:
            self._signal("HUP")

    def hang_up(self) -> None:
        """For who has left, and sees to it that it ends. Its own end would have been told by a status."""
        self.channels.close()
        if self.channels.status or not self._signal("HUP"):
            return
        deadline = time.monotonic() + ENDING
        while time.monotonic() < deadline:
            if not self._signal("0"):
                return
            time.sleep(0.2)
        self._signal("KILL")

    def read_number(self) -> bool:
        """Take the number that the shell says first out of the output; False when it ended instead."""
        before: list[tuple[int, bytes]] = []
        said = b""
        for number, data in self._frames:
            if number != self._talks:
                before.append((number, data))
                continue
            said += data
            if b"\n" in said or len(said) > _FIRST_LINE:
                break
        else:
            self._over.set()
        line = _NUMBER.match(said)
        if line is not None:
            self.number, said = line[1].decode(), said[line.end() :]
        held = [*before, *([(self._talks, said)] if said else [])]
        self._frames = itertools.chain(held, self._frames)
        return line is not None

    def interrupt(self) -> None:
        """Tell the command; hang up where that cannot be done, so that the caller is let go."""
        if not self._signal("INT") and not self._over.wait(ENDING):
            self.abandoned = True
            self.channels.leave()

    def _signal(self, name: str) -> bool:
        """Whether the command could be sent it."""
        if not self.number:
            return False
        return send_signal(self._client, self._pod, name, self.number)


def send_signal(client: ApiClient, pod: PodRef, name: str, number: str = "1") -> bool:
    """Whether a process of the container, its main one unless said otherwise, could be sent a signal: by a
    shell of its image. The main one hears only what it has asked for."""
    argv = (SHELL, "-c", 'kill -s "$1" "$2"', "sh", name.removeprefix("SIG"), number)
    try:
        channels = open_channels(client, pod, "exec", argv, typed=False, tty=False)
        with contextlib.closing(channels):
            for _ in channels.frames():
                pass
        return parse_outcome(channels.status).code == 0
    except (BaiError, OSError, ApiRefusal):
        return False


def begin_exec(
    client: ApiClient, pod: PodRef, argv: Sequence[str], *, typed: bool, tty: bool, begin: str = BEGIN
) -> ExecCommand:
    """`begin`: what the image's shell runs. Raises ProviderError, ApiRefusal, OSError."""
    name = (os.environ.get("TERM") or "xterm") if tty else ""
    words = (SHELL, "-c", begin, "sh", name, *argv)
    channels = open_channels(client, pod, "exec", words, typed=typed, tty=tty)
    command = ExecCommand(client, pod, channels, tty=tty)
    try:
        if command.read_number() or not _has_no_shell(channels):
            return command
    except BaseException:
        channels.close()
        raise
    channels.close()
    direct = open_channels(client, pod, "exec", argv, typed=typed, tty=tty)
    return ExecCommand(client, pod, direct, tty=tty)


def _has_no_shell(channels: Channels) -> bool:
    return bool(channels.status) and parse_outcome(channels.status).code is None


def _relay(command: ExecCommand, stdin: IO[bytes] | None, tty: bool) -> None:
    passed_on = terminal.forward_interrupts(command.interrupt)
    with passed_on, terminal.forward_input(command.channels, stdin, tty=tty):
        for number, data in command.output():
            terminal.write_all((sys.stderr if number == STDERR else sys.stdout).fileno(), data)
