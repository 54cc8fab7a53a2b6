"""Interrupts of commands, at moments that no real engine can be held at."""

from __future__ import annotations

import signal
import socket
from collections.abc import Sequence
from typing import Any, cast

import pytest

from providers.docker.engine.engine import Engine
from providers.docker.engine.hijack import HijackedConnection
from providers.docker.interaction import execute
from providers.machines.base import Done
from providers.machines.signals import signal_handlers

BEGINNING = [
    {"Running": False, "ExitCode": None, "Pid": 0},
    {"Running": True, "ExitCode": None, "Pid": 0},
    {"Running": True, "ExitCode": None, "Pid": 4711},
]
"""What an engine says of a command, one after the other."""


class OneCommand:
    """An engine with a command, and its machine: the command ends when it is interrupted."""

    node = "n1"

    def __init__(self) -> None:
        self.machine = self
        self.ran: list[Sequence[str]] = []
        self._ours, self._theirs = socket.socketpair()
        self._states = list(BEGINNING)

    def inspect(self, kernel: str) -> dict[str, Any]:
        return {"State": {"Running": True}, "Config": {}}

    def call(self, method: str, path: str, **_: object) -> dict[str, Any]:
        if method == "POST":
            return {"Id": "1"}
        if self.ran:
            return {"Running": False, "ExitCode": 5, "Pid": 4711}
        return self._states.pop(0) if len(self._states) > 1 else self._states[0]

    def run(self, argv: Sequence[str]) -> Done:
        self.ran.append(argv)
        self._theirs.close()
        return Done(0, b"", b"")

    def begin(self, *_: object) -> HijackedConnection:
        signal.raise_signal(signal.SIGINT)
        return HijackedConnection(self._ours, b"")


def test_an_interrupt_waits_for_a_command_that_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = OneCommand()
    monkeypatch.setattr(execute, "hijack", engine.begin)
    with signal_handlers([signal.SIGINT], signal.default_int_handler):
        assert execute.execute(cast(Engine, engine), "s", ("sh",), stdin=None, tty=False) == 5
    assert engine.ran == [["kill", "-s", "INT", "4711"]]
