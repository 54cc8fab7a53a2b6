"""Running one more command in a container, joined to the caller's standard streams or terminal."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any

from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_fixed

from providers.containers import failed_start
from providers.containers.programs import REQUIRE_PROGRAM
from providers.docker.container import entrypoint
from providers.docker.engine.engine import Engine
from providers.docker.engine.errors import NAME, engine_errors
from providers.docker.engine.hijack import STDERR, STDOUT, HijackedConnection, hijack
from providers.docker.engine.http import EngineRefusal, quote_segment
from providers.machines import terminal
from providers.machines.remote_terminal import RemoteTerminal
from schemas.problems.errors.base import BaiError
from schemas.problems.errors.kernel import NotRunning
from schemas.problems.errors.provider import ProviderError

WITH_SECRETS = f"""[ -r {entrypoint.TARGET}/secrets ] && . {entrypoint.TARGET}/secrets
{REQUIRE_PROGRAM}exec "$@"
"""
"""Variables that only the entry script knows are given to a command, too."""
PATIENCE = 30.0
"""Seconds for an exit code to be known after the output ended."""
ENDING = 2.0
"""Seconds in which a command that could not be interrupted may turn out to have ended."""


def execute(engine: Engine, kernel: str, argv: tuple[str, ...], *, stdin: IO[bytes] | None, tty: bool) -> int:
    """The command's exit code; 126 and 127 when it cannot be run. Raises ProviderError."""
    with engine_errors(engine.node, kernel):
        prepared = _prepare(engine, kernel, argv, typed=stdin is not None, tty=tty)
    withheld = failed_start.WithheldOutput()
    interrupts = _Interrupts()
    # An interrupt before this ends us alone, as nothing has begun; from now on it is the command's.
    with terminal.forward_interrupts(interrupts.pass_on):
        with interrupts.kept(), engine_errors(engine.node, kernel):
            command = interrupts.command = prepared.begin()
        with contextlib.closing(command.stream), terminal.forward_input(command, stdin, tty=tty):
            _show_output(command.stream, tty, withheld)
    if command.abandoned:
        raise ProviderError(
            provider=NAME, why="the interrupt could not be passed on; the command may still run"
        )
    with engine_errors(engine.node, kernel):
        return _exit_code(command, argv[0], withheld.taken())


def open_terminal(
    engine: Engine, kernel: str, argv: tuple[str, ...], size: tuple[int, int]
) -> RemoteTerminal:
    """Raises as `execute`."""
    with engine_errors(engine.node, kernel):
        command = begin_exec(engine, kernel, argv, typed=True, tty=True)
    opened = RemoteTerminal(
        command,
        command.stream.chunks(),
        exit_code=command.code,
        finish=command.hang_up,
        errors=lambda: engine_errors(engine.node, kernel),
    )
    opened.resize(*size)
    return opened


def _exit_code(command: ExecCommand, program: str, said: bytes) -> int:
    """The exit code. `said`: what may be the engine's words, shown if they are the command's."""
    code = command.code()
    if (
        not said
        or command.state()["Pid"]
        or code not in (failed_start.NOT_FOUND, failed_start.NOT_EXECUTABLE)
    ):
        terminal.write_all(sys.stdout.fileno(), said)
        return code
    sentence, code = failed_start.explain_failure(program, said)
    print(f"bai: {sentence}", file=sys.stderr, flush=True)
    return code


class _Interrupts:
    """Interrupts of a command that may not have begun: they wait for it."""

    def __init__(self) -> None:
        self.command: ExecCommand | None = None
        self._settled = threading.Event()

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """While it begins, or does not."""
        try:
            yield
        finally:
            self._settled.set()

    def pass_on(self) -> None:
        self._settled.wait()
        if self.command is not None:
            self.command.interrupt()


class ExecCommand:
    """A command that was started: its stream, its window, and how it ends."""

    def __init__(self, engine: Engine, identifier: str, stream: HijackedConnection) -> None:
        self.engine = engine
        self.id = identifier
        self.stream = stream
        self.send, self.end, self.leave = stream.send, stream.end, stream.leave
        self.abandoned = False

    def resize(self, rows: int, columns: int) -> None:
        query = {"h": str(rows), "w": str(columns)}
        # Until it has started, the engine knows no terminal of it.
        retrying = Retrying(
            retry=retry_if_exception(
                lambda error: isinstance(error, EngineRefusal) and not self._has_ended()
            ),
            stop=stop_after_delay(PATIENCE),
            wait=wait_fixed(0.05),
            reraise=True,
        )
        with contextlib.suppress(EngineRefusal):  # In the end it has the size that it began with.
            retrying(self.engine.call, "POST", f"/exec/{quote_segment(self.id)}/resize", query=query)

    def state(self) -> Mapping[str, Any]:
        found: dict[str, Any] = self.engine.call("GET", f"/exec/{quote_segment(self.id)}/json")
        return found

    def code(self) -> int:
        """Raises ProviderError when the command goes on without us, EngineRefusal, OSError."""
        deadline = time.monotonic() + PATIENCE
        while not _is_over(found := self.state()):
            if time.monotonic() > deadline:
                why = "the connection to the command was lost; it may still run"
                raise ProviderError(provider=NAME, why=why)
            time.sleep(0.02)
        return int(found["ExitCode"])

    def interrupt(self) -> None:
        """Tell the command; hang up where that cannot be done, so that the caller is let go."""
        if not self._tell("INT"):
            self.abandoned = True
            self.leave()

    def hang_up(self) -> None:
        """For who has left: the engine lets a command go on that nobody hears any more."""
        self.stream.close()
        with contextlib.suppress(BaiError, OSError, EngineRefusal):
            for name in ("HUP", "KILL"):
                if self._tell(name) and _is_over(self._wait_until(_is_over, ENDING)):
                    return

    def _tell(self, name: str) -> bool:
        """Whether it could be sent a signal, or has ended."""
        try:
            return self._signal(name)
        except (BaiError, OSError, EngineRefusal):
            return False

    def _signal(self, name: str) -> bool:
        # Until it has started, the engine knows no number of it.
        found = self._wait_until(lambda found: _is_over(found) or found["Pid"], PATIENCE)
        pid = str(found["Pid"] or 0)
        if _is_over(found):
            return True
        if pid == "0":  # To kill that is to kill the caller's own process group.
            return False
        run = self.engine.machine.run
        if run(["kill", "-s", name, pid]).code == 0:
            return True
        # Another user's, where one may only talk to the engine: a command beside it is of the same user.
        numbers = run(["grep", "NSpid", f"/proc/{pid}/status"]).out.split()
        inside = numbers[-1].decode() if numbers else ""
        if inside and _signal_inside(self.engine, found["ContainerID"], inside, name) == 0:
            return True
        return _is_over(self._wait_until(_is_over, ENDING))

    def _has_ended(self) -> bool:
        return _is_over(self.state())

    def _wait_until(self, true: Callable[[Mapping[str, Any]], object], seconds: float) -> Mapping[str, Any]:
        """What is seen once `true` of it, or in the end."""
        deadline = time.monotonic() + seconds
        while not true(found := self.state()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return found


def _is_over(found: Mapping[str, Any]) -> bool:
    """Whether a command has run, as the engine says: before it starts, it is not running either."""
    return not found["Running"] and found["ExitCode"] is not None


@dataclass(frozen=True, slots=True)
class _PreparedExec:
    """A command that the engine knows and has not started."""

    engine: Engine
    id: str
    tty: bool

    def begin(self) -> ExecCommand:
        """Raises EngineRefusal, OSError."""
        start = {"Detach": False, "Tty": self.tty}
        stream = hijack(self.engine, f"/exec/{quote_segment(self.id)}/start", {}, start)
        return ExecCommand(self.engine, self.id, stream)


def begin_exec(engine: Engine, kernel: str, argv: tuple[str, ...], *, typed: bool, tty: bool) -> ExecCommand:
    """Start a command. Raises NotRunning, ProviderError, EngineRefusal, OSError."""
    return _prepare(engine, kernel, argv, typed=typed, tty=tty).begin()


def _prepare(engine: Engine, kernel: str, argv: tuple[str, ...], *, typed: bool, tty: bool) -> _PreparedExec:
    """Raises NotRunning, ProviderError, EngineRefusal, OSError."""
    if not argv or any("\0" in word for word in argv):
        raise ProviderError(provider=NAME, why="there is no command to run, or it holds a NUL byte")
    found = engine.inspect(kernel)
    if not found["State"]["Running"] or found["State"].get("Paused"):
        raise NotRunning(provider=NAME, kernel=kernel)
    body = {
        "Cmd": list(_with_secrets(found["Config"], argv)),
        "AttachStdin": typed,
        "AttachStdout": True,
        "AttachStderr": True,
        "Tty": tty,
        "Env": [f"TERM={os.environ.get('TERM') or 'xterm'}"] if tty else [],
    }
    return _create(engine, kernel, body)


def _create(engine: Engine, container: str, body: Mapping[str, Any]) -> _PreparedExec:
    made = engine.call("POST", f"/containers/{quote_segment(container)}/exec", body=body)["Id"]
    return _PreparedExec(engine, made, body["Tty"])


def _signal_inside(engine: Engine, container: str, pid: str, name: str) -> int:
    """The exit code of sending a process a signal from inside, by its number there."""
    argv = ["/bin/sh", "-c", 'kill -s "$1" "$2"', "sh", name, pid]
    body = {"Cmd": argv, "AttachStdout": True, "AttachStderr": True, "Tty": False}
    command = _create(engine, container, body).begin()
    with contextlib.closing(command.stream):
        for _ in command.stream.chunks():
            pass
        return command.code()


def _with_secrets(config: Mapping[str, Any], argv: tuple[str, ...]) -> tuple[str, ...]:
    words = [*(config.get("Entrypoint") or ()), *(config.get("Cmd") or ())]
    if f"{entrypoint.TARGET}/entry" not in words[:2]:
        return argv
    return ("/bin/sh", "-c", WITH_SECRETS, "sh", *argv)


def _show_output(stream: HijackedConnection, tty: bool, withheld: failed_start.WithheldOutput) -> None:
    for number, data in _output_frames(stream, tty):
        if not withheld.keeps(data):
            terminal.write_all(sys.stdout.fileno(), withheld.taken())
            terminal.write_all((sys.stderr if number == STDERR else sys.stdout).fileno(), data)


def _output_frames(stream: HijackedConnection, tty: bool) -> Iterator[tuple[int, bytes]]:
    return ((STDOUT, data) for data in stream.chunks()) if tty else stream.frames()
