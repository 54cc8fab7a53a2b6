"""`bai schema`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from bai.cli.lazy_commands import new_app

app = new_app()


@app.command()
def schema(
    kind: Annotated[
        str | None, typer.Argument(metavar="[KIND]", help="One kind; default: the union.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write it to FILE.")] = None,
    list_kinds: Annotated[bool, typer.Option("--list", help="Only the names of the kinds.")] = False,
) -> None:
    """Print the JSON Schema of a kind, or of all kinds as one union, for editors and other tools."""
    import json

    from schemas.files.atomic_files import write_atomically
    from schemas.kinds.kind_registry import KINDS

    if list_kinds:
        typer.echo("\n".join(KINDS))
        return
    text = json.dumps(_schema(kind), indent=2) + "\n"
    if out is None:
        sys.stdout.write(text)
        return
    write_atomically(out, text)
    typer.echo(f"Wrote {out}. In a YAML file: # yaml-language-server: $schema={out.name}")


def _schema(kind: str | None) -> object:
    from bai.queries.names.kind_names import kind_of
    from bai.queries.names.resource_names import suggest_names
    from schemas.kinds.kind_registry import KINDS
    from schemas.loading.json_schema import schema_of, union_schema
    from schemas.problems.errors.command import NoSuchResource

    if kind is None:
        return union_schema()
    name = kind_of(kind)
    if name is None:
        raise NoSuchResource(what="kind", name=kind, hint=suggest_names(kind, KINDS))
    return schema_of(name)
