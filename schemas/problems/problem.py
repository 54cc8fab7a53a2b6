"""One thing wrong with a document, and where it stands."""

from __future__ import annotations

from dataclasses import dataclass

from schemas.problems.text import printable


@dataclass(frozen=True, slots=True, order=True)
class SourceLocation:
    """Where something stands: a file path relative to the repository root, line and column from 1."""

    file: str
    line: int = 1
    column: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One thing wrong with a document: its place, stable code (`BAI-V…`), path inside the document, what is
    wrong, what would be right."""

    place: SourceLocation
    code: str
    path: str
    message: str
    hint: str = ""

    def __post_init__(self) -> None:
        """What stands in a file never drives a terminal."""
        for name in ("path", "message", "hint"):
            object.__setattr__(self, name, printable(getattr(self, name)))

    def __str__(self) -> str:
        at = f" ({self.path})" if self.path else ""
        hint = f"; {self.hint}" if self.hint else ""
        return f"{self.place}: {self.code}{at}: {self.message}{hint}"
