"""The caller's terminal on the main process of a kernel's container."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import IO

from providers.kubernetes.api.client import ApiClient
from providers.kubernetes.api.credentials import NAME
from providers.kubernetes.api.errors import ApiRefusal, api_errors
from providers.kubernetes.interaction.channels import STDERR, Channels, open_channels
from providers.kubernetes.interaction.container_state import read_state, require_running
from providers.kubernetes.objects.names import PodRef
from providers.machines import terminal
from providers.machines.remote_terminal import RemoteTerminal
from schemas.problems.errors.kernel import NoTerminal

PATIENCE = 60.0
"""Seconds for an exit code to be known after the output ended."""


def attach(client: ApiClient, pod: PodRef, stdin: IO[bytes] | None) -> int:
    """The main process's exit code, 0 when detached; without a terminal of its own, its output only.

    Raises NotRunning, ProviderError.
    """
    with api_errors(pod.name):
        state = require_running(client, pod)
        channels = open_channels(client, pod, "attach", typed=state.tty, tty=state.tty)
    try:
        ended = _relay(_RemoteTerminal(channels), stdin) if state.tty else _show_output(channels)
    except KeyboardInterrupt:
        return 0
    except OSError as error:
        with api_errors(pod.name):
            raise error
    finally:
        channels.close()
    return _exit_code(client, pod, state.run) if ended else 0


def open_terminal(client: ApiClient, pod: PodRef, size: tuple[int, int]) -> RemoteTerminal:
    """Raises NotRunning, NoTerminal, ProviderError."""
    with api_errors(pod.name):
        state = require_running(client, pod)
        if not state.tty:
            raise NoTerminal(provider=NAME, kernel=pod.name, hint="`tty: true` gives it one")
        channels = open_channels(client, pod, "attach", typed=True, tty=True)
    opened = RemoteTerminal(
        far := _RemoteTerminal(channels),
        (data for _, data in channels.frames()),
        exit_code=lambda: _exit_code(client, pod, state.run),
        finish=channels.close,
        errors=lambda: api_errors(pod.name),
    )
    with contextlib.suppress(OSError):  # It may have ended by now, which its output tells.
        far.redraw(size)
    return opened


class _RemoteTerminal:
    """`terminal.RemoteEnd` of a container."""

    def __init__(self, channels: Channels) -> None:
        self.channels = channels
        self.send, self.resize, self.leave = channels.send, channels.resize, channels.leave

    def end(self) -> None:
        """A terminal stays open when nobody types."""

    def redraw(self, size: tuple[int, int] | None) -> None:
        """Programs that fill the screen draw it anew when its size changes."""
        if size is not None:
            self.resize(size[0] + 1, size[1])
            self.resize(*size)


def _relay(far: _RemoteTerminal, stdin: IO[bytes] | None) -> bool:
    """False when the detach keys were typed."""
    with terminal.forward_input(far, stdin, tty=True, keys=True) as typed:
        far.redraw(terminal.window_size(terminal.input_descriptor(stdin)))
        terminal.write_output(data for _, data in far.channels.frames())
    return not typed.detached


def _show_output(channels: Channels) -> bool:
    for number, data in channels.frames():
        terminal.write_all((sys.stderr if number == STDERR else sys.stdout).fileno(), data)
    return True


def _exit_code(client: ApiClient, pod: PodRef, run: str) -> int:
    """Of the run that just ended, also when another one has begun; 0 where nobody knows any more."""
    deadline = time.monotonic() + PATIENCE
    with contextlib.suppress(ApiRefusal), api_errors(pod.name):
        while time.monotonic() < deadline:
            codes = read_state(client, pod).exit_codes
            if run in codes:
                return codes[run]
            time.sleep(0.05)
    return 0
