"""Asking before something is changed."""

from __future__ import annotations

import sys

import typer

from schemas.problems.errors.command import NotConfirmed


def confirm(question: str, *, yes: bool) -> None:
    """Return when the answer is `yes`.

    Raises NotConfirmed for any other answer, and when nobody can be asked because stdin is no terminal.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise NotConfirmed(why="nobody can be asked without a terminal", hint="pass --yes to go ahead")
    typer.echo(f"{question} Only `yes` goes ahead: ", nl=False, err=True)
    answer = sys.stdin.readline().strip().lower()
    if answer not in ("yes", "y"):
        raise NotConfirmed(why="the answer was not yes")
