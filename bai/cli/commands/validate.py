"""`bai validate`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from bai.cli.formats import Format
from bai.cli.lazy_commands import new_app
from bai.settings import Settings, settings_of

if TYPE_CHECKING:
    from schemas.problems.errors import Problem
    from schemas.repository.repository import Repository

app = new_app()


@app.command()
def validate(
    ctx: typer.Context,
    format: Annotated[Format, typer.Option("--format", help="How to print problems.")] = Format.text,
) -> None:
    """Check every document of the repository; exit code 1 and `file:line:column` for each mistake."""
    from schemas.problems.errors import InvalidRepository

    settings = settings_of(ctx)
    try:
        repository = read(settings)
    except InvalidRepository as error:
        if format is Format.text:
            raise
        _print_json(error.problems, ())
        raise typer.Exit(1) from None
    if format is Format.json:
        _print_json((), repository.warnings, len(repository.resources))
        return
    for warning in repository.warnings:
        typer.echo(f"warning: {warning}", err=True)
    typer.echo(_verdict(repository))


def read(settings: Settings) -> Repository:
    """The repository as the options say: a commit's documents or the working files.

    Raises InvalidRepository and CannotRead.
    """
    return settings.source().load()[0]


def _verdict(repository: Repository) -> str:
    from collections import Counter

    from bai.render.humanize import plural

    kinds = Counter(identity.partition("/")[0] for identity in repository.resources)
    parts = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    total = plural(len(repository.resources), "resource")
    return f"Valid: {total} ({parts})." if parts else "Valid, and empty: there is no document here."


def _print_json(problems: tuple[Problem, ...], warnings: tuple[Problem, ...], resources: int = 0) -> None:
    from bai.cli.output import print_json

    print_json(
        "bai.validation/v1",
        valid=not problems,
        resources=resources,
        problems=[_plain(problem) for problem in problems],
        warnings=[_plain(warning) for warning in warnings],
    )


def _plain(problem: Problem) -> dict[str, object]:
    return {
        "file": problem.place.file,
        "line": problem.place.line,
        "column": problem.place.column,
        "code": problem.code,
        "path": problem.path,
        "message": problem.message,
        "hint": problem.hint,
    }
