"""All terminals of a server: how many there may be, who finds one again, and until when."""

from __future__ import annotations

import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from bai.web.panel.terminal.live_terminal import LiveTerminal, TerminalEnd
from providers.abilities import TerminalStream

ENDING = 20.0
"""Seconds in which all end, when the server does."""


@dataclass(frozen=True, slots=True)
class TerminalLimits:
    """Times in seconds."""

    most: int = 64
    """In all."""
    most_each: int = 4
    """Of one person."""
    grace: float = 60.0
    """For which one goes on without a connection."""
    recheck: float = 5.0
    """After which it is asked again whether somebody still may."""


class TooManyTerminals(Exception):
    """No more can be opened just now; its text says whose are too many."""


@dataclass(frozen=True, slots=True)
class TerminalOwner:
    """To whom it is given back: the same login, on the same page. `sealed`: of the cookie."""

    name: str
    sealed: str
    cluster: str
    session: str


class Terminals:
    """By ids that nobody guesses."""

    def __init__(self, limits: TerminalLimits | None = None) -> None:
        self.limits = limits or TerminalLimits()
        self._lock = threading.Lock()
        self._places: Counter[str] = Counter()
        self._found: dict[str, tuple[TerminalOwner, LiveTerminal]] = {}
        self._is_over = False

    def __len__(self) -> int:
        """Places that are taken, by those that are being opened, too."""
        with self._lock:
            return self._places.total()

    def take_place(self, name: str) -> None:
        """For one more of this person; `give_back` it. Raises TooManyTerminals."""
        with self._lock:
            if self._is_over:
                raise TooManyTerminals("the server ends")
            if self._places[name] >= self.limits.most_each:
                raise TooManyTerminals(f"you have {self.limits.most_each} terminals open: close one")
            if self._places.total() >= self.limits.most:
                raise TooManyTerminals(f"{self.limits.most} terminals are open here: come again later")
            self._places[name] += 1

    def give_back(self, name: str) -> None:
        with self._lock:
            self._places[name] -= 1
            if not self._places[name]:
                del self._places[name]

    def add(self, owner: TerminalOwner, stream: TerminalStream, on_end: Callable[[TerminalEnd], None]) -> str:
        """In a place that was taken. Its id."""
        identifier = secrets.token_urlsafe(32)

        def ended(end: TerminalEnd) -> None:
            try:
                on_end(end)
            finally:
                self.give_back(owner.name)

        terminal = LiveTerminal(stream, ended)
        with self._lock:
            self._found[identifier] = owner, terminal
            is_over = self._is_over
        if is_over:
            terminal.close("the server ended")
        return identifier

    def find(self, identifier: str, owner: TerminalOwner) -> LiveTerminal | None:
        """None where it is not theirs."""
        with self._lock:
            found = self._found.get(identifier)
        return found[1] if found is not None and found[0] == owner else None

    def end(self, identifier: str, why: str) -> None:
        """It is found no more."""
        with self._lock:
            found = self._found.pop(identifier, None)
        if found is not None:
            found[1].close(why)

    def close(self) -> None:
        """All of them, and there are no more."""
        with self._lock:
            self._is_over = True
            found = [terminal for _, terminal in self._found.values()]
            self._found.clear()
        for terminal in found:
            terminal.close("the server ended")
        deadline = time.monotonic() + ENDING
        for terminal in found:
            terminal.join(max(0.0, deadline - time.monotonic()))
