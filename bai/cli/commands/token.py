"""`bai token`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from bai.cli.formats import Format
from bai.cli.lazy_commands import new_app
from bai.cli.options import FormatOption

app = new_app()


class RoleName(StrEnum):
    viewer = "viewer"
    operator = "operator"
    admin = "admin"


@app.command()
def token(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whose it is: stands in the audit.")],
    role: Annotated[RoleName, typer.Option("--role", help="What it allows.")] = RoleName.viewer,
    project: Annotated[
        list[str] | None,
        typer.Option("--project", metavar="NAME", help="Only for this one; may be repeated."),
    ] = None,
    format: FormatOption = Format.text,
) -> None:
    """Make a token for the API of `bai serve`, and the line of its access file that lets it in.

    The token is printed once and kept nowhere; the file holds its hash only.
    """
    from bai.cli.output import print_json
    from bai.web.auth.access_file import validate_access
    from bai.web.auth.static_tokens import new_token

    if not name.strip() or len(name) > 200:
        raise typer.BadParameter("a name has 1 to 200 characters", param_hint="NAME")
    made, digest = new_token()
    line: dict[str, object] = {"name": name, "sha256": digest, "role": role.value}
    if project:
        line["projects"] = project
    validate_access({"tokens": [line]})
    if format is Format.json:
        print_json("bai.token/v1", token=made, line=line)
        return
    typer.echo(f"token, shown only now:\n  {made}\n\nline of the access file, under `tokens:`:")
    typer.echo(f"  - {{{', '.join(f'{key}: {_yaml_scalar(value)}' for key, value in line.items())}}}")


def _yaml_scalar(value: object) -> str:
    import json

    return str(value) if str(value).isalpha() else json.dumps(value)
