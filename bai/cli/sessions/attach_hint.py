"""What is said before a terminal is connected to a session: how to leave, or that keys go nowhere."""

from __future__ import annotations

import sys
from collections.abc import Mapping

import typer


def print_attach_hint(document: Mapping[str, object], kernel: str) -> None:
    """On stderr, before the screen changes hands."""
    if not _has_terminal(document):
        no_keys = "this is its output, keys go nowhere. Ctrl-C leaves."
        typer.echo(f"{kernel} has no terminal (`tty: true` gives one): {no_keys}", err=True)
    elif sys.stdin is not None and sys.stdin.isatty():
        typer.echo("Ctrl-P Ctrl-Q leaves.", err=True)


def _has_terminal(document: Mapping[str, object]) -> bool:
    spec = document.get("spec")
    return isinstance(spec, Mapping) and bool(spec.get("tty"))
