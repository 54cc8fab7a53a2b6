"""`bai version`."""

from __future__ import annotations

import typer

from bai import __version__
from bai.cli.formats import Format
from bai.cli.lazy_commands import new_app
from bai.cli.options import FormatOption

app = new_app()


@app.command()
def version(format: FormatOption = Format.text) -> None:
    """Print the version of bai and of Python."""
    import json
    import platform

    if format is Format.json:
        facts = {"version": "bai.version/v1", "bai": __version__, "python": platform.python_version()}
        typer.echo(json.dumps(facts, indent=2))
        return
    typer.echo(f"bai {__version__} (Python {platform.python_version()})")
