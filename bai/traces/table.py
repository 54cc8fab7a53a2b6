"""CSV files by rows that know where they stand."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from schemas.files.regular_files import read_regular_file
from schemas.problems.errors.repository import CannotRead, InvalidRepository
from schemas.problems.problem import Problem, SourceLocation

LARGEST_TRACE = 64 << 20
"""Bytes of the largest trace that is read."""
BAD_VALUE, MISSING_COLUMN = "BAI-V032", "BAI-V021"


@dataclass(slots=True)
class Row:
    """One line of a table. Values that are not what was asked for count as zero and add a problem."""

    file: str
    line: int
    values: Mapping[str, str]
    problems: list[Problem] = field(default_factory=list)

    def text(self, column: str) -> str:
        return (self.values.get(column) or "").strip()

    def integer(self, column: str, most: int = 10**15) -> int:
        """A whole number from 0 to `most`; empty counts as 0."""
        value = self.number(column)
        if value != int(value):
            self.add_problem(column, f"{self.text(column)} is not a whole number")
        if value > most:
            self.add_problem(column, f"{self.text(column)} is more than {most}")
            return 0
        return int(value)

    def number(self, column: str) -> float:
        """A finite number from 0 up; empty counts as 0."""
        text = self.text(column)
        try:
            value = float(text or 0)
        except ValueError:
            value = math.nan
        if not 0 <= value < 1e15:
            self.add_problem(column, f"{text[:40]!r} is not a number from 0 up")
            return 0.0
        return value

    def add_problem(self, column: str, message: str, hint: str = "") -> None:
        self.problems.append(Problem(SourceLocation(self.file, self.line), BAD_VALUE, column, message, hint))


@dataclass(frozen=True, slots=True)
class Table:
    """The rows of one file."""

    file: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]

    def require_columns(self, columns: Sequence[str], hint: str = "") -> None:
        """Raises InvalidRepository naming each of the columns that is not there."""
        lost = [one for one in columns if one not in self.columns]
        if lost:
            problems = (
                Problem(SourceLocation(self.file), MISSING_COLUMN, one, "this column is missing", hint)
                for one in lost
            )
            raise InvalidRepository(tuple(problems), where=self.file)

    def check(self) -> None:
        """Raises InvalidRepository with what was found wrong with any row so far."""
        if self.problems:
            raise InvalidRepository(self.problems, where=self.file)

    @property
    def problems(self) -> tuple[Problem, ...]:
        return tuple(problem for row in self.rows for problem in row.problems)


def read_text(path: Path) -> str:
    """A trace's text. Raises CannotRead when it is not UTF-8, and OSError."""
    data = read_regular_file(path, LARGEST_TRACE)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CannotRead(what=str(path), why=f"byte {error.start} is not UTF-8") from None


def parse_csv(name: str, text: str) -> Table:
    """The table of a CSV file with a head. Raises CannotRead when it is none."""
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    rows: list[Row] = []
    try:
        columns = tuple((column or "").strip() for column in reader.fieldnames or ())
        reader.fieldnames = columns
        for values in reader:
            row = Row(name, reader.line_num, {k: v for k, v in values.items() if isinstance(v, str)})
            if None in values:
                row.add_problem("", f"has more values than the {len(columns)} columns of the head")
            rows.append(row)
    except csv.Error as error:
        raise CannotRead(what=name, why=f"line {reader.line_num}: {error}") from None
    if not columns:
        raise CannotRead(what=name, why="it is empty")
    return Table(name, columns, tuple(rows))
