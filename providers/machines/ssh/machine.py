"""A node over SSH as a `Machine`."""

from __future__ import annotations

import contextlib
import math
import shlex
import threading
import time
from collections.abc import Callable, Mapping, Sequence

import paramiko
from paramiko.common import OPEN_FAILED_RESOURCE_SHORTAGE
from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_before_delay, wait_exponential

from providers.machines.base import LARGEST, Done, Endpoint, Process, Stream
from providers.machines.ssh.bridge import BRIDGE, await_bridge
from providers.machines.ssh.channels import (
    ChannelProcess,
    ChannelStream,
    OutputTooLarge,
    communicate,
    first_line,
    request_terminal,
)
from providers.machines.ssh.persistent import BROKEN, CHANNEL_TIMEOUT, PersistentConnection
from providers.machines.ssh.transport import Connection, was_refused
from schemas.problems.errors.node import (
    CommandTimedOut,
    LoginRefused,
    MachineRefused,
    NodeUnreachable,
    TargetRefused,
)
from schemas.problems.errors.provider import ProviderError

SESSIONS = 8
"""Most commands at a time: OpenSSH allows ten sessions on one connection (MaxSessions)."""
_PUT_SCRIPT = """umask 077; folder=$(dirname -- "$1")
mkdir -p -- "$folder" && draft=$(mktemp "$folder/.bai-XXXXXX") || exit 1
trap 'rm -f -- "$draft"' EXIT
cat >"$draft" && [ "$(wc -c <"$draft")" -eq "$3" ] && chmod -- "$2" "$draft" && mv -fT -- "$draft" "$1" """
_GET_SCRIPT = """[ -e "$1" ] || exit 44; cat -- "$1" """
_NOT_THERE = 44
_PRINT_PID = 'echo $$; exec "$@"'
_KILL_COMMAND = 'kill -KILL -- "-$1" 2>/dev/null || kill -KILL "$1" 2>/dev/null'
"""sshd makes a command the leader of a process group."""
MOST_REFUSALS = 20
"""Times that a command is asked for which the far side does not start."""
_PROHIBITED = 1
"""SSH_OPEN_ADMINISTRATIVELY_PROHIBITED (RFC 4254, 5.1)."""


class _CommandRefused(paramiko.ChannelException):
    """The far side does not start the command: it has no process left for it, or lets nobody run any."""

    def __init__(self) -> None:
        super().__init__(OPEN_FAILED_RESOURCE_SHORTAGE, "it refuses to start a command")


def _was_refused_often(state: RetryCallState) -> bool:
    error = state.outcome.exception() if state.outcome else None
    return isinstance(error, _CommandRefused) and state.attempt_number >= MOST_REFUSALS


class SshMachine:
    """May be used by several threads. `on_connect` is called after each login."""

    def __init__(self, endpoint: Endpoint, *, on_connect: Callable[[], None] = lambda: None) -> None:
        self.ssh_connection = PersistentConnection(endpoint, on_connect)
        self._sessions = threading.BoundedSemaphore(SESSIONS)
        self._forbidden = False

    @property
    def name(self) -> str:
        return self.ssh_connection.node

    # commands

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        timeout: float = 60,
    ) -> Done:
        deadline = time.monotonic() + timeout
        if not self._sessions.acquire(timeout=timeout):
            raise self._timed_out(argv, timeout)
        try:
            # The far side ends it too, whatever becomes of the connection, a little later than we give up.
            limited = ["timeout", "-s", "KILL", str(math.ceil(timeout) + 1), *_env_words(env), *argv]
            # Who reads nothing needs not be told of the end, which could meet that of the command.
            line = self._command_line(limited) + ("" if stdin else " </dev/null")
            channel = self._session(line, deadline)
            try:
                done = communicate(channel, stdin, deadline)
            except TimeoutError:
                raise self._timed_out(argv, timeout) from None
            except OutputTooLarge:
                why = f"it says more than {LARGEST >> 20} MiB"
                raise MachineRefused(node=self.name, what=f"to run {argv[0]}", why=why) from None
            except BROKEN as error:
                raise self.ssh_connection.broken(error) from error
            finally:
                self.ssh_connection.let_go(channel)
        finally:
            self._sessions.release()
        if done is None:
            raise self.ssh_connection.broken(f"the connection was lost while {argv[0]} ran")
        return self._checked_done(done)

    def start(self, argv: Sequence[str], *, tty: bool = False) -> Process:
        deadline = time.monotonic() + CHANNEL_TIMEOUT
        if tty:  # whoever sits at it is hung up when it goes
            channel = self._session(self._command_line(argv), deadline, tty=True)
            return ChannelProcess(channel, self.name, lambda: self.ssh_connection.let_go(channel))
        channel = self._session(self._command_line(["sh", "-c", _PRINT_PID, "sh", *argv]), deadline)
        pid = first_line(channel, deadline)
        if not pid.isdigit():
            done = communicate(channel, b"", deadline) if channel.eof_received else None
            self.ssh_connection.let_go(channel)
            why = _last_error_line(self._checked_done(done)) if done else "it did not start"
            raise MachineRefused(node=self.name, what=f"to run {argv[0]}", why=why)
        return ChannelProcess(
            channel, self.name, lambda: self.ssh_connection.let_go(channel), lambda: self._kill(pid.decode())
        )

    def _kill(self, pid: str) -> None:
        with contextlib.suppress(ProviderError):
            self.run(["sh", "-c", _KILL_COMMAND, "sh", pid], timeout=10)

    def _command_line(self, argv: Sequence[str]) -> str:
        """The far shell reads this line: every word is quoted."""
        return shlex.join(["sudo", "-n", "--", *argv] if self.ssh_connection.route.sudo else argv)

    def _session(self, line: str, deadline: float, *, tty: bool = False) -> paramiko.Channel:
        """A channel on which `line` runs; while the far side has no more sessions, it is asked again."""
        too_late = stop_before_delay(deadline - time.monotonic())
        retrying = Retrying(
            retry=retry_if_exception_type(paramiko.ChannelException),
            stop=lambda state: too_late(state) or _was_refused_often(state),
            wait=wait_exponential(multiplier=0.05, max=1.0),
            reraise=True,
        )
        try:
            return retrying(self._start_on_channel, line, tty=tty)
        except _CommandRefused as error:
            raise NodeUnreachable(node=self.name, why="it refuses to start a command") from error
        except paramiko.ChannelException as error:
            why = f"it opens no more sessions on one connection: {error.text}"
            hint = "raise MaxSessions of its sshd"
            raise NodeUnreachable(node=self.name, why=why, hint=hint) from error

    def _start_on_channel(self, line: str, *, tty: bool) -> paramiko.Channel:
        """Raises ChannelException when the far side refuses, so that `line` does not run."""
        channel = self.ssh_connection.channel(lambda c: c.transport.open_session(timeout=CHANNEL_TIMEOUT))
        try:
            if tty:
                request_terminal(channel)
            channel.exec_command(line)
        except BROKEN as error:
            self.ssh_connection.let_go(channel)
            if was_refused(channel):
                raise _CommandRefused from error
            raise self.ssh_connection.broken(error) from error
        return channel

    def _timed_out(self, argv: Sequence[str], timeout: float) -> CommandTimedOut:
        return CommandTimedOut(node=self.name, command=argv[0], seconds=f"{timeout:g}")

    def _checked_done(self, done: Done) -> Done:
        if self.ssh_connection.route.sudo and done.code == 1 and done.err.startswith(b"sudo: "):
            why = done.err.decode(errors="replace").strip()
            hint = "let this user run sudo without a password, or log in as root"
            raise LoginRefused(node=self.name, user=self.ssh_connection.route.target.user, why=why, hint=hint)
        return done

    # files

    def put(self, path: str, content: bytes, *, mode: int = 0o600) -> None:
        done = self.run(["sh", "-c", _PUT_SCRIPT, "sh", path, f"{mode:o}", str(len(content))], stdin=content)
        if done.code:
            raise MachineRefused(node=self.name, what=f"to write {path}", why=_last_error_line(done))

    def get(self, path: str) -> bytes:
        done = self.run(["sh", "-c", _GET_SCRIPT, "sh", path])
        if done.code == _NOT_THERE:
            raise FileNotFoundError(f"{self.name}:{path}")
        if done.code:
            raise MachineRefused(node=self.name, what=f"to read {path}", why=_last_error_line(done))
        return done.out

    # sockets

    def dial(self, target: str | tuple[str, int]) -> Stream:
        if self._forbidden:
            return self._dial_bridge(target)
        try:
            channel = self.ssh_connection.channel(lambda connection: _forwarded(connection, target))
        except paramiko.ChannelException as error:
            if error.code != _PROHIBITED and not isinstance(target, str):
                raise self._refusal(target, error.text.lower()) from error
            # Of a unix socket sshd says the same whether it is not there, or forwarding is forbidden.
            stream = self._dial_bridge(target)
            self._forbidden = True
            return stream
        return self._stream(channel)

    def _dial_bridge(self, target: str | tuple[str, int]) -> Stream:
        """A process of the far side joins the target to its standard streams, where sshd may not, or where
        only root may."""
        words = [target] if isinstance(target, str) else [target[0], str(target[1])]
        line = self._command_line(["python3", "-I", "-S", "-c", BRIDGE, *words])
        channel = self._session(line, time.monotonic() + CHANNEL_TIMEOUT)
        try:
            why = await_bridge(channel, CHANNEL_TIMEOUT)
        except BROKEN as error:
            why = str(error)
        if why is not None:
            self.ssh_connection.let_go(channel)
            raise self._refusal(target, why)
        return self._stream(channel)

    def _stream(self, channel: paramiko.Channel) -> Stream:
        connection = self.ssh_connection
        return ChannelStream(channel, lambda: connection.let_go(channel), connection.rest)

    def _refusal(self, target: str | tuple[str, int], why: str) -> TargetRefused:
        where = target if isinstance(target, str) else f"{target[0]}:{target[1]}"
        user = self.ssh_connection.route.target.user
        hint = f"is it there, and may {user} use it?" if isinstance(target, str) else ""
        return TargetRefused(node=self.name, target=where, why=why, hint=hint)

    def close(self) -> None:
        self.ssh_connection.close()


def _forwarded(connection: Connection, target: str | tuple[str, int]) -> paramiko.Channel:
    if isinstance(target, str):
        return connection.transport.open_unix(target, CHANNEL_TIMEOUT)
    return connection.transport.open_channel(
        "direct-tcpip", target, ("127.0.0.1", 0), timeout=CHANNEL_TIMEOUT
    )


def _env_words(env: Mapping[str, str] | None) -> list[str]:
    return ["env", *(f"{name}={value}" for name, value in env.items())] if env else []


def _last_error_line(done: Done) -> str:
    lines = done.err.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else f"exit code {done.code}"
