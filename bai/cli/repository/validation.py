"""What `bai validate` says: a sentence, or every problem as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schemas.values.resource_ref import ref_of

if TYPE_CHECKING:
    from schemas.problems.problem import Problem
    from schemas.repository.repository import Repository


def summary(repository: Repository) -> str:
    from collections import Counter

    from bai.render.humanize import plural

    kinds = Counter(ref_of(identity).kind for identity in repository.resources)
    parts = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    total = plural(len(repository.resources), "resource")
    return f"Valid: {total} ({parts})." if parts else "Valid, and empty: there is no document here."


def print_problems_json(
    problems: tuple[Problem, ...], warnings: tuple[Problem, ...], resources: int = 0
) -> None:
    from bai.cli.output import print_json

    print_json(
        "bai.validation/v1",
        valid=not problems,
        resources=resources,
        problems=[_problem_json(problem) for problem in problems],
        warnings=[_problem_json(warning) for warning in warnings],
    )


def _problem_json(problem: Problem) -> dict[str, object]:
    return {
        "file": problem.place.file,
        "line": problem.place.line,
        "column": problem.place.column,
        "code": problem.code,
        "path": problem.path,
        "message": problem.message,
        "hint": problem.hint,
    }
