"""The caller's terminal on a container's main process."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import IO

from providers.docker.engine.engine import Engine
from providers.docker.engine.errors import NAME, engine_errors
from providers.docker.engine.hijack import STDERR, HijackedConnection, hijack
from providers.docker.engine.http import quote_segment
from providers.machines import terminal
from providers.machines.remote_terminal import RemoteTerminal
from schemas.problems.errors.kernel import KernelNotFound, NoTerminal, NotRunning
from schemas.problems.errors.provider import ProviderError

PATIENCE = 10.0
"""Seconds for an exit code to be known after the output ended."""


def attach(engine: Engine, kernel: str, stdin: IO[bytes] | None) -> int:
    """The main process's exit code, 0 when detached; without a terminal of its own, its output only.

    Raises NotRunning, ProviderError.
    """
    with engine_errors(engine.node, kernel):
        tty = _has_terminal(engine, kernel)
        stream = _begin(engine, kernel, tty=tty)
    try:
        ended = _relay(_RemoteTerminal(engine, kernel, stream), stdin) if tty else _show_output(stream)
    except KeyboardInterrupt:
        return 0
    finally:
        stream.close()
    return _exit_code(engine, kernel) if ended else 0


def open_terminal(engine: Engine, kernel: str, size: tuple[int, int]) -> RemoteTerminal:
    """Raises NotRunning, NoTerminal, ProviderError."""
    with engine_errors(engine.node, kernel):
        if not _has_terminal(engine, kernel):
            raise NoTerminal(provider=NAME, kernel=kernel, hint="`tty: true` gives it one")
        stream = _begin(engine, kernel, tty=True)
    far = _RemoteTerminal(engine, kernel, stream)
    with contextlib.suppress(ProviderError):  # It may have ended by now, which its output tells.
        far.redraw(size)
    return RemoteTerminal(
        far,
        stream.chunks(),
        exit_code=lambda: _exit_code(engine, kernel),
        finish=stream.close,
        errors=lambda: engine_errors(engine.node, kernel),
    )


def _has_terminal(engine: Engine, kernel: str) -> bool:
    """Raises NotRunning, EngineRefusal, OSError."""
    found = engine.inspect(kernel)
    if not found["State"]["Running"]:
        raise NotRunning(provider=NAME, kernel=kernel)
    return bool(found["Config"]["Tty"])


def _begin(engine: Engine, kernel: str, *, tty: bool) -> HijackedConnection:
    """Raises EngineRefusal, OSError."""
    wanted = {"stream": "1", "stdout": "1", "stderr": "1", **({"stdin": "1"} if tty else {})}
    return hijack(engine, f"/containers/{quote_segment(kernel)}/attach", wanted)


class _RemoteTerminal:
    """`terminal.RemoteEnd` of a container."""

    def __init__(self, engine: Engine, kernel: str, stream: HijackedConnection) -> None:
        self._engine = engine
        self._kernel = kernel
        self.stream = stream
        self.send, self.leave = stream.send, stream.leave

    def end(self) -> None:
        """A terminal stays open when nobody types."""

    def resize(self, rows: int, columns: int) -> None:
        with engine_errors(self._engine.node, self._kernel):
            query = {"h": str(rows), "w": str(columns)}
            self._engine.call("POST", f"/containers/{quote_segment(self._kernel)}/resize", query=query)

    def redraw(self, size: tuple[int, int] | None) -> None:
        """Programs that fill the screen draw it anew when its size changes."""
        if size is not None:
            self.resize(size[0] + 1, size[1])
            self.resize(*size)


def _relay(far: _RemoteTerminal, stdin: IO[bytes] | None) -> bool:
    """False when the detach keys were typed."""
    with terminal.forward_input(far, stdin, tty=True, keys=True) as typed:
        far.redraw(terminal.window_size(terminal.input_descriptor(stdin)))
        terminal.write_output(far.stream.chunks())
    return not typed.detached


def _show_output(stream: HijackedConnection) -> bool:
    for number, data in stream.frames():
        terminal.write_all((sys.stderr if number == STDERR else sys.stdout).fileno(), data)
    return True


def _exit_code(engine: Engine, kernel: str) -> int:
    """Of the run that just ended, also when the engine has begun another."""
    deadline = time.monotonic() + PATIENCE
    with contextlib.suppress(KernelNotFound), engine_errors(engine.node, kernel):
        while time.monotonic() < deadline:
            state = engine.inspect(kernel)["State"]
            if not state["Running"] or state.get("Restarting"):
                return int(state["ExitCode"])
            time.sleep(0.05)
    return 0
