"""Values that every session asked for on the command line needs: its project, and `NAME=VALUE` options."""

from __future__ import annotations

from collections.abc import Mapping

from schemas.problems.errors.command import CommandError
from schemas.repository.repository import Repository


def only_project(repository: Repository) -> str:
    """The name of the repository's project, if there is but one. Raises CommandError."""
    from schemas.kinds.tenancy import Project

    names = sorted(project.name for project in repository.of(Project))
    if len(names) == 1:
        return names[0]
    hint = f"choose one with --project: {', '.join(names)}" if names else "add a Project document"
    raise CommandError(
        why="the repository has no project" if not names else "there are several projects", hint=hint
    )


def parse_pairs(texts: tuple[str, ...], option: str) -> Mapping[str, str]:
    """`NAME=VALUE` by name. Raises CommandError."""
    found = {}
    for text in texts:
        name, mark, value = text.partition("=")
        if not mark or not name:
            raise CommandError(why=f"{option}: {text!r} is not NAME=VALUE")
        found[name] = value
    return found
