"""Asking one replica one question, through what runs its kernels. Never raises: an error is a bad answer."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING

from providers.required_abilities import require_port_forward, require_terminals
from reconciler.observe.readiness.http_status import NoHttp, http_status
from reconciler.observe.readiness.standing import Answer, late
from schemas.problems.errors.base import BaiError
from schemas.problems.errors.kernel import NotRunning, PortRefused

if TYPE_CHECKING:
    from providers.abilities import TerminalStream
    from providers.base import Provider
    from reconciler.observe.readiness.questions import Question, Replica
    from schemas.kinds.cluster import Cluster

MOST_OUTPUT = 1 << 20
"""Bytes that a command may print."""
AT_ONCE = 1.0
"""Seconds within which a refusal is one, and no silence that somebody has given up on."""
_SIZE = (24, 80)
GOOD = Answer(True)


def ask(provider: Provider, cluster: Cluster, replica: Replica, question: Question) -> Answer:
    """What the replica says now; a provider that hangs may take longer than the question's time."""
    began = time.monotonic()
    try:
        if question.how == "command":
            return _run_command(provider, cluster, replica.kernel, question)
        return _connect(provider, cluster, replica.kernel, question)
    except TimeoutError:
        return late(question)
    except (PortRefused, NotRunning) as error:
        why = error.fields.get("why") or error.message
        soon = time.monotonic() - began < min(AT_ONCE, question.timeout)
        return Answer(False, f"{question.what} cannot be reached: {why}", refused=soon)
    except NoHttp as error:
        return Answer(False, f"{question.what}: {error}")
    except BaiError as error:
        return Answer(False, f"{question.what} cannot be asked: {error.message}")
    except (OSError, EOFError, ValueError) as error:
        why = str(getattr(error, "strerror", None) or error or type(error).__name__).lower()
        return Answer(False, f"{question.what}: {why}")


def _connect(provider: Provider, cluster: Cluster, kernel: str, question: Question) -> Answer:
    deadline = time.monotonic() + question.timeout
    stream = require_port_forward(provider, cluster).dial(kernel, question.port)
    try:
        if question.how == "tcp":
            return GOOD
        status = http_status(stream, question.path, tls=question.tls, deadline=deadline)
    finally:
        with contextlib.suppress(OSError, EOFError, BaiError):
            stream.close()
    if 200 <= status < 400:
        return GOOD
    return Answer(False, f"{question.what} is answered with {status}")


def _run_command(provider: Provider, cluster: Cluster, kernel: str, question: Question) -> Answer:
    deadline = time.monotonic() + question.timeout
    terminal = require_terminals(provider, cluster).open_terminal(kernel, question.command, _SIZE)
    command = _Command(terminal)
    try:
        ended = command.over.wait(max(0.0, deadline - time.monotonic()))
    finally:
        # It goes with all that it has left behind.
        with contextlib.suppress(OSError, EOFError, BaiError):
            terminal.close()
    if not ended:
        return late(question)
    if command.why:
        return Answer(False, f"{question.what}: {command.why}")
    if command.code is None:
        return Answer(False, f"nobody knows how {question.what} ended")
    return GOOD if command.code == 0 else Answer(False, f"{question.what} ended with {command.code}")


class _Command:
    """One that runs; what it prints is thrown away. `over` is set when it has ended, or `why` says what is
    wrong."""

    def __init__(self, terminal: TerminalStream) -> None:
        self.over = threading.Event()
        self.code: int | None = None
        self.why = ""
        self._terminal = terminal
        threading.Thread(target=self._follow, name="replica-command", daemon=True).start()

    def _follow(self) -> None:
        size = 0
        try:
            while data := self._terminal.read():
                size += len(data)
                if size > MOST_OUTPUT:
                    self.why = f"it prints more than {MOST_OUTPUT >> 20} MiB"
                    return
            self.code = self._terminal.exit_code()
        except (OSError, EOFError, BaiError) as error:
            self.why = error.message if isinstance(error, BaiError) else str(error).lower()
        finally:
            self.over.set()
