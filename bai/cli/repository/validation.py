"""What `bai validate` says of a repository, or of some of its files: a sentence, or every problem as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schemas.problems.text import printable
from schemas.values.resource_ref import ref_of

if TYPE_CHECKING:
    from bai.settings import Settings
    from reconciler.sources.source import Source
    from schemas.loading.document_cache import DocumentCache
    from schemas.problems.problem import Problem
    from schemas.repository.repository import Repository


@dataclass(frozen=True, slots=True)
class Checked:
    """What was found in the files that were asked for."""

    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    kinds: Mapping[str, int] = field(default_factory=dict)
    """How many resources of each kind stand in these files; none when any file of their repository has
    mistakes."""
    elsewhere: int = 0
    """Problems in other files of the same repositories."""
    where: str = ""
    """The repositories, in words."""


def check(settings: Settings, paths: Sequence[Path]) -> Checked:
    """These files and folders, each with the repository that it is in; without any, the whole repository.

    Raises CannotRead for a path that is none or that bai reads no documents from, NotARepository.
    """
    if not paths:
        return _check_repository(settings)
    chosen: dict[Path, list[str]] = {}
    for path in paths:
        root, file = _locate(settings, path)
        chosen.setdefault(root, []).append(file)
    found = [_check_files(replace(settings, directory=root), files) for root, files in chosen.items()]
    return Checked(
        problems=tuple(problem for each in found for problem in each.problems),
        warnings=tuple(warning for each in found for warning in each.warnings),
        kinds=sum((Counter(each.kinds) for each in found), Counter()),
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


def _check_repository(settings: Settings) -> Checked:
    """All of it; by an index, where nothing has changed since all was right."""
    from reconciler.sources.document_index import DocumentIndex

    source = settings.source()
    index = DocumentIndex.of_user(source, "validation")
    if index is not None and (known := index.read()) is not None:
        return Checked(warnings=tuple(map(_problem_from_json, known["warnings"])), kinds=known["kinds"])
    from reconciler.sources.known_documents import KnownDocuments
    from schemas.loading.document_cache import DocumentCache

    values = KnownDocuments.of_user(source)
    cache = values.new_cache() if values is not None else DocumentCache()
    checked, repository = _load_and_check(settings, ["."], source, cache)
    if values is not None and repository is not None:
        values.remember()
    if index is not None and repository is not None:
        answer = {"kinds": checked.kinds, "warnings": [*map(_problem_json, checked.warnings)]}
        index.write(answer, repository, cache)
    return checked


def _check_files(settings: Settings, files: Sequence[str]) -> Checked:
    return _load_and_check(settings, files, settings.source(), None)[0]


def _load_and_check(
    settings: Settings, files: Sequence[str], source: Source, cache: DocumentCache | None
) -> tuple[Checked, Repository | None]:
    """And the repository, where nothing is wrong in it."""
    from schemas.problems.errors.repository import InvalidRepository, NotARepository

    try:
        repository = settings.repository(source, cache)
    except NotARepository:
        raise
    except InvalidRepository as error:
        problems = _in(files, error.problems)
        where = str(error.fields["where"])
        return Checked(problems, elsewhere=len(error.problems) - len(problems), where=where), None
    resources = (identity for identity, place in repository.locations.items() if _is_in(files, place.file))
    kinds = Counter(ref_of(identity).kind for identity in resources)
    return Checked((), _in(files, repository.warnings), kinds), repository


def _in(files: Sequence[str], problems: Iterable[Problem]) -> tuple[Problem, ...]:
    return tuple(problem for problem in problems if _is_in(files, problem.place.file))


def _is_in(files: Sequence[str], file: str) -> bool:
    return any(one in (".", file) or file.startswith(f"{one}/") for one in map(printable, files))


def summary(kinds: Mapping[str, int]) -> str:
    from bai.render.humanize import plural

    parts = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    total = plural(sum(kinds.values()), "resource")
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


def _problem_from_json(found: Mapping[str, Any]) -> Problem:
    from schemas.problems.problem import Problem, SourceLocation

    place = SourceLocation(found["file"], found["line"], found["column"])
    return Problem(place, found["code"], found["path"], found["message"], found["hint"])
