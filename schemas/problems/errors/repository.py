"""Documents that cannot be read, or are wrong."""

from __future__ import annotations

from schemas.problems.errors.base import BaiError
from schemas.problems.problem import Problem


class InvalidRepository(BaiError):
    """{count} problem(s) in {where}"""

    code = "BAI-E0001"

    def __init__(self, problems: tuple[Problem, ...], *, where: str = "the repository") -> None:
        self.problems = problems
        super().__init__(count=len(problems), where=where)


class NotARepository(InvalidRepository):
    """{where} is no repository of bai: none of its first {count} YAML files is a document of bai"""

    code = "BAI-E0003"

    def __init__(self, problems: tuple[Problem, ...], *, where: str = "the repository") -> None:
        super().__init__(problems, where=where)
        self.hint = "name another folder with -C DIR, or write a first repository with `bai init DIR`"


class CannotRead(BaiError):
    """Cannot read {what}: {why}"""

    code = "BAI-E0002"
