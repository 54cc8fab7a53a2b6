"""What a command is at is told on a terminal while it takes its time, and nowhere else."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from bai.cli import waiting_notice as module
from bai.cli.context import with_notice
from bai.cli.waiting_notice import WaitingNotice, waiting_notice
from bai.settings import Settings
from reconciler.workspace.workspace import Workspace
from tests.bai.terminal import Terminal
from tests.reconciler.lab import Lab, session
from tests.waiting import until


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SHOWN_AFTER", 0.0)
    monkeypatch.setattr(module, "_REDRAWN", 0.005)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: 10.0))


@pytest.mark.usefixtures("at_once")
def test_it_tells_how_far_it_has_come_and_leaves_nothing() -> None:
    terminal = Terminal(60)
    notice = WaitingNotice(terminal)
    with notice.during("planning 3 sessions"):
        until(lambda: "... planning 3 sessions (0 s)" in terminal.getvalue(), "it is told")
        notice.detail("group \x1b[31mred")
        until(lambda: "planning 3 sessions: group " in terminal.getvalue(), "the group is told")
    assert "\x1b[31m" not in terminal.getvalue()
    assert terminal.screen().plain.strip() == ""
    with notice.during("looking at 2 nodes"):
        until(lambda: "... looking at 2 nodes (0 s)" in terminal.getvalue(), "the next one has no detail")
    assert terminal.screen().plain.strip() == ""


@pytest.mark.usefixtures("at_once")
def test_it_ends_with_what_fails() -> None:
    terminal = Terminal(60)
    with contextlib.suppress(RuntimeError), WaitingNotice(terminal).during("planning"):
        until(lambda: "planning" in terminal.getvalue(), "it is told")
        raise RuntimeError
    assert terminal.screen().plain.strip() == ""


@pytest.mark.usefixtures("at_once")
def test_a_terminal_that_is_gone_stops_nothing() -> None:
    stream = io.StringIO()
    stream.close()
    with WaitingNotice(stream).during("planning"):
        pass


def test_what_takes_no_time_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SHOWN_AFTER", 3600.0)
    terminal = Terminal(60)
    with WaitingNotice(terminal).during("planning"):
        pass
    assert terminal.getvalue() == ""


def test_who_sits_at_no_terminal_is_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert waiting_notice() is None
    assert with_notice(Settings()).activity is None
    monkeypatch.setattr(sys, "stderr", None)
    assert waiting_notice() is None


def test_who_sits_at_one_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", Terminal(60))
    assert isinstance(with_notice(Settings()).activity, WaitingNotice)
    monkeypatch.setenv("TERM", "dumb")
    assert waiting_notice() is None


class Heard:
    """All that is told, as it comes."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    @contextlib.contextmanager
    def during(self, what: str) -> Iterator[None]:
        self.lines.append(what)
        yield
        self.lines.append(f"end of {what}")

    def detail(self, what: str) -> None:
        self.lines.append(what)


def test_a_plan_tells_its_stages(tmp_path: Path) -> None:
    lab, heard = Lab(tmp_path, nodes=2), Heard()
    lab.write({"a": session("a"), "b": session("b")})
    settings = Settings(directory=lab.folder, state=str(lab.state), activity=heard)
    with settings.workspace() as workspace:
        workspace.provider = lab.provider
        workspace.plan()
    assert heard.lines == [
        "reading documents",
        "end of reading documents",
        "looking at 2 nodes",
        "end of looking at 2 nodes",
        "planning 2 sessions",
        "group default",
        "end of planning 2 sessions",
        "asking registries about images",
        "end of asking registries about images",
    ]
    heard.lines.clear()
    settings.repository()
    assert heard.lines == ["reading documents", "end of reading documents"]


def test_who_reads_the_documents_again_still_tells(tmp_path: Path) -> None:
    lab, heard = Lab(tmp_path), Heard()
    with Workspace.open(lab.folder, state=lab.state, clock=lab.world.clock) as workspace:
        workspace.activity = heard
        lab.write({"a": session("a")})
        again = workspace.reloaded()
        assert again is not workspace and again.activity is heard
