"""A terminal that runs: what its two threads do, and that they end."""

from __future__ import annotations

import threading

import pytest

from bai.web.panel.terminal.live_terminal import LiveTerminal, TerminalEnd
from bai.web.panel.terminal.terminals import TerminalLimits, TerminalOwner, Terminals, TooManyTerminals
from providers.machines.echo_shell import EchoShell
from schemas.problems.errors.provider import ProviderUnavailable
from tests.waiting import until

OWNER = TerminalOwner("ada", "sealed", "here", "Session/p/own")


class Lost(EchoShell):
    def read(self) -> bytes:
        if self.typed:
            raise ProviderUnavailable(provider="fake", why="the node is away")
        return super().read()


def opened(shell: EchoShell) -> tuple[LiveTerminal, list[TerminalEnd]]:
    ends: list[TerminalEnd] = []
    return LiveTerminal(shell, ends.append), ends


def test_whoever_listens_is_told_of_output_of_keys_that_were_taken_and_of_the_end() -> None:
    terminal, ends = opened(EchoShell((24, 80)))
    heard = threading.Event()
    assert terminal.listen(heard.set, None)[2] == 0
    assert terminal.type(b"exit 3\r")
    until(lambda: heard.wait(0) and terminal.news(0).piece.endswith(b"exit 3\r\n"), "the echo")
    at = len(terminal.news(0).piece)
    until(lambda: terminal.news(at).end, "the end")
    news = terminal.news(at)
    assert (news.end, news.taken, ends) == (TerminalEnd(3), 7, [TerminalEnd(3)])
    assert terminal.join(60)


def test_a_way_that_breaks_is_the_end_and_says_why() -> None:
    terminal, ends = opened(Lost((24, 80)))
    terminal.type(b"\r")
    assert terminal.join(60)
    assert len(ends) == 1 and ends[0].code is None and "the node is away" in ends[0].why


def test_closing_it_is_heard_once_however_often_it_is_closed() -> None:
    terminal, ends = opened(shell := EchoShell((24, 80)))
    for why in ("first", "second"):
        terminal.close(why)
    assert terminal.join(60) and shell.closed
    terminal.close("third")
    assert ends == [TerminalEnd(None, "first")]


def test_who_came_last_is_told_and_who_was_before_hears_that() -> None:
    terminal, _ = opened(EchoShell((24, 80)))
    first, second = threading.Event(), threading.Event()
    terminal.listen(first.set, None)
    terminal.listen(second.set, None)
    assert first.is_set()
    assert (terminal.hang_up(first.set), terminal.is_heard_by(second.set)) == (0, True)
    silence = terminal.hang_up(second.set)
    assert terminal.is_silent_since(silence)
    terminal.listen(first.set, None)
    again = terminal.hang_up(first.set)
    assert not terminal.is_silent_since(silence) and terminal.is_silent_since(again)
    terminal.close("over")
    assert terminal.join(60)


def test_places_are_counted_and_none_is_left_after_the_server_has_ended() -> None:
    terminals = Terminals(TerminalLimits(most=3, most_each=2))
    ends: list[TerminalEnd] = []
    shells = [EchoShell((24, 80)) for _ in range(3)]
    for shell, name in zip(shells, ("ada", "ada", "bo"), strict=True):
        terminals.take_place(name)
        owner = TerminalOwner(name, "", "here", "Session/p/own")
        found = terminals.add(owner, shell, ends.append)
        assert terminals.find(found, owner) is not None and terminals.find(found, OWNER) is None
    for name in ("ada", "bo"):
        with pytest.raises(TooManyTerminals):
            terminals.take_place(name)
    terminals.close()
    assert [each.closed for each in shells] == [True] * 3 and len(ends) == 3 and len(terminals) == 0
    with pytest.raises(TooManyTerminals, match="ends"):
        terminals.take_place("ada")
