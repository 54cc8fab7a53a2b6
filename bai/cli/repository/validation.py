"""What `bai validate` says of a repository, or of some of its files: a sentence, or every problem as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from schemas.problems.text import printable
from schemas.values.resource_ref import ref_of

if TYPE_CHECKING:
    from bai.settings import Settings
    from schemas.problems.problem import Problem


@dataclass(frozen=True, slots=True)
class Checked:
    """What was found in the files that were asked for."""

    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    resources: tuple[str, ...] = ()
    """Identities of what stands in these files; none when any file of their repository has mistakes."""
    elsewhere: int = 0
    """Problems in other files of the same repositories."""
    where: str = ""
    """The repositories, in words."""


def check(settings: Settings, paths: Sequence[Path]) -> Checked:
    """These files and folders, each with the repository that it is in; without any, the whole repository.

    Raises CannotRead for a path that is none or that bai reads no documents from, NotARepository.
    """
    if not paths:
        return _check_files(settings, ["."])
    chosen: dict[Path, list[str]] = {}
    for path in paths:
        root, file = _locate(settings, path)
        chosen.setdefault(root, []).append(file)
    found = [_check_files(replace(settings, directory=root), files) for root, files in chosen.items()]
    return Checked(
        problems=tuple(problem for each in found for problem in each.problems),
        warnings=tuple(warning for each in found for warning in each.warnings),
        resources=tuple(identity for each in found for identity in each.resources),
        elsewhere=sum(each.elsewhere for each in found),
        where=", ".join(each.where for each in found),
    )


def _locate(settings: Settings, path: Path) -> tuple[Path, str]:
    """The root of the repository that a path is in, and its path from there."""
    from reconciler.sources.repository_root import declares_cluster, find_repository_root
    from schemas.files.sources import is_document_file
    from schemas.problems.errors.repository import CannotRead

    if not path.exists():
        raise CannotRead(what=path, why="there is no such file or folder")
    folder = (path if path.is_dir() else path.parent).resolve()
    found = folder if path.is_dir() else folder / path.name
    root = find_repository_root(folder)
    named = find_repository_root(settings.directory.expanduser().resolve())
    if found.is_relative_to(named) and not declares_cluster(root):
        root = named
    file = found.relative_to(root)
    hidden = any(part.startswith(".") for part in file.parts)
    if hidden or not (found.is_dir() or is_document_file(found.name)):
        hint = "documents are in files that end in .yaml or .yml; names that begin with a dot are skipped"
        raise CannotRead(what=path, why="bai reads no documents from it", hint=hint)
    if root != Path.cwd():
        settings.notify_user(f"note: the repository is {printable(str(root))}")
    return root, str(file)


def _check_files(settings: Settings, files: Sequence[str]) -> Checked:
    from schemas.problems.errors.repository import InvalidRepository, NotARepository

    try:
        repository = settings.repository()
    except NotARepository:
        raise
    except InvalidRepository as error:
        problems = _in(files, error.problems)
        where = str(error.fields["where"])
        return Checked(problems, elsewhere=len(error.problems) - len(problems), where=where)
    resources = (identity for identity, place in repository.locations.items() if _is_in(files, place.file))
    return Checked((), _in(files, repository.warnings), tuple(resources))


def _in(files: Sequence[str], problems: Iterable[Problem]) -> tuple[Problem, ...]:
    return tuple(problem for problem in problems if _is_in(files, problem.place.file))


def _is_in(files: Sequence[str], file: str) -> bool:
    return any(one in (".", file) or file.startswith(f"{one}/") for one in map(printable, files))


def summary(resources: Sequence[str]) -> str:
    from collections import Counter

    from bai.render.humanize import plural

    kinds = Counter(ref_of(identity).kind for identity in resources)
    parts = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    total = plural(len(resources), "resource")
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
