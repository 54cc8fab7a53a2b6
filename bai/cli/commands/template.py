"""`bai template`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from bai.cli.context import settings_of
from bai.cli.lazy_commands import new_app

if TYPE_CHECKING:
    from schemas.kinds.session_template import Parameter

app = new_app(help="List session templates, and fill them in.", no_args_is_help=True)
Values = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A parameter; may be repeated.")
]


@app.command("list")
def list_templates(ctx: typer.Context) -> None:
    """List the templates with their parameters."""
    from bai.cli.output import print_table
    from schemas.kinds.session_template import Parameter, SessionTemplate

    settings = settings_of(ctx)
    with settings.workspace() as workspace:
        rows = [
            [each.name, each.metadata.project or "", name, *(_parameter_cells(one) if name else ("", "", ""))]
            for each in workspace.repository.of(SessionTemplate)
            for name, one in (each.spec.parameters or {"": Parameter()}).items()
        ]
    columns = ["template", "project", "parameter", "type", "default", "about"]
    print_table(settings, columns, rows, empty="There is no SessionTemplate.")


@app.command()
def render(
    ctx: typer.Context,
    template: Annotated[str, typer.Argument(metavar="TEMPLATE", help="Its name.")],
    values: Values = None,
    name: Annotated[str, typer.Option("--name", help="Of the session.")] = "example",
    project: Annotated[str, typer.Option("--project", "-p", help="Default: the template's.")] = "",
) -> None:
    """Print the Session that a template makes of these values. Writes nothing.

    \b
    bai template render trainer --set lr=3e-4
    bai template render trainer --set lr=3e-4 > sessions/try.yaml
    """
    from bai.cli.run.templates import render_template
    from bai.render.resources.document import document_lines

    with settings_of(ctx).workspace() as workspace:
        document = render_template(workspace.repository, template, tuple(values or ()), name, project)
    for line in document_lines(document):
        typer.echo(line)


def _parameter_cells(one: Parameter) -> tuple[str, str, str]:
    return one.type, "(needed)" if one.default is None else str(one.default), one.about
