"""The bar of an apply, on a terminal that takes its time."""

from __future__ import annotations

import time
from typing import Any

import pytest
from rich.console import Console

from bai.cli.plans import progress
from bai.cli.plans.progress import LiveProgress
from reconciler.values.results import ApplyEvent
from tests.bai.terminal import Terminal


class SlowConsole(Console):
    """Gives others their turn between what it erases and what it writes."""

    def render(self, *arguments: Any, **options: Any) -> Any:
        time.sleep(0.001)
        return super().render(*arguments, **options)


def test_lines_stand_above_the_bar_whenever_it_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_REDRAWN", 0.0001)
    names = [f"Session/p/s{number}" for number in range(5)]
    for _ in range(5):
        terminal = Terminal(80)
        live = LiveProgress(SlowConsole(file=terminal, force_terminal=True, width=80), len(names))
        for number, name in enumerate(names, start=1):
            for state, done in (("started", number - 1), ("done", number)):
                live.on_event(ApplyEvent("action", 0.0, name, "create", state, done=done, total=len(names)))
        live.close()
        shown = [line.strip() for line in terminal.screen().plain.splitlines()]
        assert shown == [f"{name}: created ({at}/{len(names)})" for at, name in enumerate(names, start=1)]
        assert terminal.broken_lines() == []
