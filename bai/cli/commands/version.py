"""`bai version`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from bai import __version__
from bai.cli.lazy import new_app

app = new_app()


class Format(StrEnum):
    text = "text"
    json = "json"


@app.command()
def version(
    format: Annotated[Format, typer.Option("--format", help="How to print it.")] = Format.text,
) -> None:
    """Print the version of bai, of its formats and of Python."""
    import json
    import platform

    if format is Format.json:
        facts = {"version": "bai.version/v1", "bai": __version__, "python": platform.python_version()}
        typer.echo(json.dumps(facts, indent=2))
        return
    typer.echo(f"bai {__version__} (Python {platform.python_version()})")
