"""Terminals that are opened for somebody else: what is typed, what is seen, and what is left of it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import cast

import pytest

from providers.abilities import OpensTerminals, TerminalStream
from providers.base import Provider
from providers.conformance.harness import ProviderHarness
from providers.conformance.kernels import Commands, StartedKernels, require_ability, require_programs, seen
from providers.conformance.waiting import until
from schemas.problems.errors.kernel import KernelNotFound, NoTerminal, NotRunning
from schemas.problems.errors.provider import ProviderError

SIZE = (24, 80)
STUBBORN = "trap '' HUP; echo $$ >stubborn; echo up; while :; do sleep 0.3; done"
POLITE = "trap 'echo gone >gone; exit' HUP; echo up; while :; do sleep 0.1; done"
DEAF = "echo up; exec sleep 1000"
TYPED = b"some words that nobody reads\r" * 40_000


class _Reader(threading.Thread):
    """Reads on beside the test."""

    def __init__(self, terminal: TerminalStream) -> None:
        super().__init__(daemon=True)
        self._terminal = terminal
        self.text = b""
        self.error: ProviderError | None = None
        self.start()

    def run(self) -> None:
        try:
            while data := self._terminal.read():
                self.text += data
        except ProviderError as error:
            self.error = error

    def until(self, text: bytes) -> None:
        until(lambda: text in self.text, lambda: f"{text!r} in {self.text[-2000:]!r} {self.error}")

    def until_end(self) -> None:
        until(lambda: not self.is_alive(), lambda: f"it is over: {self.text[-2000:]!r}")
        assert self.error is None


@contextmanager
def _opened(terminal: TerminalStream) -> Iterator[tuple[TerminalStream, _Reader]]:
    try:
        yield terminal, _Reader(terminal)
    finally:
        terminal.close()


class Terminals:
    @pytest.fixture
    def opener(self, harness: ProviderHarness, provider: Provider) -> OpensTerminals:
        require_programs(harness)
        require_ability(provider, OpensTerminals)
        return cast(OpensTerminals, provider)

    def test_a_shell_answers_on_a_terminal_of_the_size_that_it_is_given(
        self, opener: OpensTerminals, started: StartedKernels
    ) -> None:
        with _opened(opener.open_terminal(started.ready("runs").id, ("sh",), (31, 97))) as (shell, seen):
            shell.write(b"echo he''re; [ -t 0 ] && echo is''-tty\r")
            seen.until(b"here")
            seen.until(b"is-tty")
            _until_size(shell, seen, 31, 97)
            shell.resize(41, 123)
            _until_size(shell, seen, 41, 123)
            shell.write(b"exit 6\r")
            seen.until_end()
            assert shell.exit_code() == 6
        assert shell.exit_code() is None and shell.read() == b"", "it is closed"

    def test_keys_reach_the_program(self, opener: OpensTerminals, started: StartedKernels) -> None:
        script = "trap 'echo int''errupted; exit 3' INT; echo u''p; while :; do sleep 0.1; done"
        argv = ("sh", "-c", script)
        with _opened(opener.open_terminal(started.ready("runs").id, argv, SIZE)) as (shell, seen):
            seen.until(b"up")
            shell.write(b"\x03")
            seen.until(b"interrupted")
            seen.until_end()
            assert shell.exit_code() == 3

    def test_who_leaves_hangs_up_the_program_also_one_that_does_not_listen(
        self, opener: OpensTerminals, commands: Commands, started: StartedKernels
    ) -> None:
        kernel = started.ready("runs").id
        for script in (POLITE, STUBBORN):
            shell = opener.open_terminal(kernel, ("sh", "-c", script), SIZE)
            reader = _Reader(shell)
            reader.until(b"up")
            shell.close()
            reader.until_end()
        until(lambda: commands.run(kernel, "cat", "gone").out == b"gone\n", "it was hung up")
        alive = 'kill -0 "$(cat stubborn)"'
        until(lambda: commands.run(kernel, "sh", "-c", alive).code, "it was killed in the end")

    def test_who_waits_is_freed_when_it_is_closed(
        self, opener: OpensTerminals, started: StartedKernels
    ) -> None:
        """Somebody who leaves would keep threads otherwise, until a quiet program says a word, or reads."""
        shell = opener.open_terminal(started.ready("runs").id, ("sh", "-c", DEAF), SIZE)
        reader = _Reader(shell)
        reader.until(b"up")
        writer = threading.Thread(target=_quietly(lambda: shell.write(TYPED)), daemon=True)
        writer.start()
        shell.close()
        reader.until_end()
        until(lambda: not writer.is_alive(), "who types is free")
        assert shell.exit_code() is None
        shell.write(b"x")  # There is nobody to hear it, and nobody to blame.
        shell.resize(*SIZE)
        shell.close()

    def test_attaching_is_to_the_main_process_and_leaving_does_not_end_it(
        self, opener: OpensTerminals, provider: Provider, started: StartedKernels
    ) -> None:
        kernel = started.ready("console").id
        with _opened(opener.attach_terminal(kernel, (31, 97))) as (console, heard):
            console.write(b"one\r")
            heard.until(b"got <one>")
            until(lambda: _asked(console, heard, b"size\r", b"31 97"), "it has this size")
            console.resize(41, 123)
            until(lambda: _asked(console, heard, b"size\r", b"41 123"), "it has the new size")
        heard.until_end()
        found = seen(provider, kernel)
        assert found is not None and found.state == "running"
        with _opened(opener.attach_terminal(kernel, SIZE)) as (again, heard):
            again.write(b"two\r")
            heard.until(b"got <two>")
            again.write(b"end\r")
            heard.until_end()
            assert again.exit_code() == 7

    def test_nothing_is_kept_of_terminals_that_were_closed(
        self, opener: OpensTerminals, started: StartedKernels
    ) -> None:
        kernel = started.ready("runs").id

        def open_and_leave() -> None:
            with _opened(opener.open_terminal(kernel, ("sh",), SIZE)) as (shell, heard):
                shell.write(b"echo he''re\r")
                heard.until(b"here")

        open_and_leave()  # What is kept for all of them, is from here on.
        before = _held()
        for _ in range(5):
            open_and_leave()
        until(lambda: all(now <= then for now, then in zip(_held(), before, strict=True)), _held_words)

    def test_there_is_no_terminal_where_nothing_runs_or_none_was_asked_for(
        self, harness: ProviderHarness, opener: OpensTerminals, started: StartedKernels
    ) -> None:
        runs, ended = started.ready("runs").id, started.ended("ends").id
        nobody = harness.spec("nobody", "").id
        for argv in ((), ("sh", "a\0b")):
            with pytest.raises(ProviderError, match="no command"):
                opener.open_terminal(runs, argv, SIZE)
        with pytest.raises(NoTerminal):
            opener.attach_terminal(runs, SIZE)
        for kernel, error in ((ended, NotRunning), (nobody, KernelNotFound)):
            with pytest.raises(error):
                opener.open_terminal(kernel, ("sh",), SIZE)
            with pytest.raises(error):
                opener.attach_terminal(kernel, SIZE)


def _until_size(shell: TerminalStream, reader: _Reader, rows: int, columns: int) -> None:
    wanted = f"{rows} {columns}".encode()
    until(lambda: _asked(shell, reader, b"stty size; echo d''one\r", wanted, b"done"), f"it is {wanted!r}")


def _asked(shell: TerminalStream, reader: _Reader, typed: bytes, wanted: bytes, after: bytes = b"\n") -> bool:
    """Whether that is answered, as soon as something is."""
    known = len(reader.text)
    shell.write(typed)
    until(lambda: after in reader.text[known + len(typed) :], lambda: f"an answer: {reader.text[known:]!r}")
    return wanted in reader.text[known:]


def _quietly(call: Callable[[], None]) -> Callable[[], None]:
    """Nobody is there to hear its error."""

    def quiet() -> None:
        try:
            call()
        except ProviderError:
            return

    return quiet


def _held() -> tuple[int, int]:
    """How many threads and files this process has."""
    return threading.active_count(), len(os.listdir("/proc/self/fd"))


def _held_words() -> str:
    names = sorted(thread.name for thread in threading.enumerate())
    return f"nothing more is held: {_held()} {names}"
