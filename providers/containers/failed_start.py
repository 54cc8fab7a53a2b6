"""A command that the engine could not start: it says so where the command's output would have come, as the
command's own, and with exit codes that differ by version. Here it becomes a sentence and a shell's code."""

from __future__ import annotations

import re

PREFIX = b"OCI runtime exec failed"
NOT_FOUND, NOT_EXECUTABLE = 127, 126
LONGEST = 8192
"""Bytes that an engine says at most; what says more is a command."""
_BEFORE = re.compile(r"^.*?(?=exec:? \"|exec /|chdir |unable to find )", re.DOTALL)


class WithheldOutput:
    """The beginning of an output that may be the engine's words; kept back until that is known."""

    def __init__(self) -> None:
        self.text = b""
        self._undecided = True

    def keeps(self, data: bytes) -> bool:
        """Whether this piece is kept back. When it is not, what was kept is let go by the caller."""
        if self._undecided:
            said = self.text + data
            self._undecided = said.startswith(PREFIX) and len(said) <= LONGEST
            if self._undecided:
                self.text = said
        return self._undecided

    def taken(self) -> bytes:
        """What was kept, which is then no longer kept."""
        text, self.text = self.text, b""
        return text


def explain_failure(program: str, said: bytes) -> tuple[str, int]:
    """A sentence, and the exit code that shells have for it."""
    text = " ".join(said.decode(errors="replace").split()).removesuffix(": unknown")
    if _missing(program, text):
        what = "file, or not what its first line names" if "/" in program else "program in its PATH"
        return f"{program}: the container has no such {what}", NOT_FOUND
    if "permission denied" in text:
        return f"{program}: is no program that may be executed in the container", NOT_EXECUTABLE
    return f"{program}: cannot be executed: {_BEFORE.sub('', text)}", NOT_EXECUTABLE


def _missing(program: str, text: str) -> bool:
    """Whether it was not found; a working folder may be missing as well, in the same words."""
    named = rf'exec:? "?{re.escape(program)}"?: (stat .*)?no such file or directory'
    return re.search(rf"executable file .*not found|{named}", text) is not None
