"""A shell of the fake provider: nothing runs, and what is typed has the same answer each time."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Sequence
from typing import IO

from schemas.problems.errors.kernel import NoTerminal

PROMPT = b"$ "
PIECE = 1 << 14
_INTERRUPT, _END, _RUBOUT = 3, 4, 127


class EchoShell:
    """A `TerminalStream`. It knows `echo`, `stty size`, `yes`, `exit`, Ctrl-C and Ctrl-D; `say` is what a
    program would write."""

    def __init__(self, size: tuple[int, int]) -> None:
        self.size = size
        self.typed = b""
        """All that was typed."""
        self.closed = False
        self._code: int | None = None
        self._line = bytearray()
        self._output = bytearray(PROMPT)
        self._repeated = b""
        self._change = threading.Condition()

    def say(self, data: bytes) -> None:
        with self._change:
            self._output += data
            self._change.notify_all()

    def read(self) -> bytes:
        with self._change:
            self._change.wait_for(lambda: self._output or self._repeated or self._is_over)
            if self.closed:
                return b""
            if not self._output and self._repeated and self._code is None:
                return (self._repeated * (PIECE // len(self._repeated) + 1))[:PIECE]
            piece = bytes(self._output[:PIECE])
            del self._output[:PIECE]
            return piece

    def write(self, data: bytes) -> None:
        with self._change:
            self.typed += data
            for byte in data:
                if not self._is_over:
                    self._take(byte)
            self._change.notify_all()

    def resize(self, rows: int, columns: int) -> None:
        self.size = (rows, columns)

    def exit_code(self) -> int | None:
        return None if self.closed else self._code

    def close(self) -> None:
        with self._change:
            self.closed = True
            self._change.notify_all()

    @property
    def _is_over(self) -> bool:
        return self.closed or self._code is not None

    def _take(self, byte: int) -> None:
        if byte == _INTERRUPT:
            self._repeated = b""
            self._line.clear()
            self._output += b"^C\r\n" + PROMPT
        elif byte == _END and not self._line:
            self._code = 0
        elif byte in b"\r\n":
            self._output += b"\r\n" + self._answer(self._line.decode(errors="replace"))
            self._line.clear()
        elif byte == _RUBOUT:
            if self._line:
                del self._line[-1]
                self._output += b"\b \b"
        else:
            self._line.append(byte)
            self._output.append(byte)

    def _answer(self, line: str) -> bytes:
        program, _, rest = line.strip().partition(" ")
        if program == "exit":
            self._code = int(rest) if rest.isdecimal() else 0
            return b""
        if program == "yes":
            self._repeated = b"y\r\n"
            return b""
        said = {"echo": rest, "stty": f"{self.size[0]} {self.size[1]}", "": ""}.get(program)
        text = f"{program}: not found" if said is None else said
        return (f"{text}\r\n" if program else "").encode() + PROMPT


class EchoCommands:
    """Mixed into the fake provider, which knows what runs."""

    terminals: Sequence[EchoShell] = ()
    """Those that were opened, the last one last."""

    @abstractmethod
    def _enter(self, kernel_id: str, argv: tuple[str, ...]) -> bool:
        """Whether its main process has a terminal. Raises ProviderError."""

    def execute(
        self, kernel_id: str, argv: tuple[str, ...], *, stdin: IO[bytes] | None = None, tty: bool = False
    ) -> int:
        self._enter(kernel_id, argv)
        return 0

    def open_terminal(self, kernel_id: str, argv: Sequence[str], size: tuple[int, int]) -> EchoShell:
        self._enter(kernel_id, tuple(argv))
        return self._open(size)

    def attach_terminal(self, kernel_id: str, size: tuple[int, int]) -> EchoShell:
        if not self._enter(kernel_id, ()):
            raise NoTerminal(provider="fake", kernel=kernel_id, hint="`tty: true` gives it one")
        return self._open(size)

    def _open(self, size: tuple[int, int]) -> EchoShell:
        shell = EchoShell(size)
        self.terminals = (*self.terminals, shell)
        return shell
