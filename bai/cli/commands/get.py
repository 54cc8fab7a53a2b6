"""`bai get`."""

from __future__ import annotations

from typing import Annotated

import typer

from bai.cli.context import settings_of
from bai.cli.formats import ListFormat, form_of
from bai.cli.lazy_commands import new_app
from bai.cli.options import ListFormatOption

app = new_app()


Kind = Annotated[
    str, typer.Argument(metavar="[KIND]", help="sessions, nodes, ... or all, or one resource's name.")
]
Name = Annotated[str | None, typer.Argument(metavar="[NAME]", help="Only this one.")]
Project = Annotated[str | None, typer.Option(metavar="NAME", help="Only this project's.")]
Usage = Annotated[bool, typer.Option("--usage", help="Of volumes: how much they hold.")]
Mine = Annotated[
    bool,
    typer.Option(
        "--mine",
        help="Sessions whose `owner` is me: git's user.email or user.name, or the Linux user, or the User"
        " document that one of these means.",
    ),
]
Phase = Annotated[
    str, typer.Option("--phase", metavar="PHASE", help="Sessions in it, or in one of several: a,b.")
]
Selector = Annotated[
    str,
    typer.Option(
        "--selector", "-l", metavar="TERMS", help="Sessions with labels: key=value,key!=value,key,!key."
    ),
]
Sort = Annotated[
    str,
    typer.Option(
        "--sort",
        metavar="BY",
        help="Sessions by name, age (youngest first), phase, project, or gpus (most first).",
    ),
]
Watch = Annotated[
    bool, typer.Option("--watch", "-w", help="Of sessions: then a line for each change, until Ctrl-C.")
]


@app.command()
def get(
    ctx: typer.Context,
    kind: Kind = "sessions",
    name: Name = None,
    format: ListFormatOption = ListFormat.table,
    project: Project = None,
    usage: Usage = False,
    mine: Mine = False,
    phase: Phase = "",
    selector: Selector = "",
    sort: Sort = "",
    watch: Watch = False,
) -> None:
    """List resources with their phase, as they are now.

    \b
    bai get                  sessions
    bai get nodes            or any other kind, or all
    bai get services         replicas, generations, how far rollouts are
    bai get service/chat     one of them
    """
    from bai.cli.inspect.session_choice import check_choice, own_names
    from bai.queries.models import GetQuery
    from bai.queries.names.kind_names import kind_of, no_such_kind
    from bai.queries.names.service_names import service_part
    from bai.render.resources.session_filter import check_sort_order

    settings = settings_of(ctx)
    found = "" if kind.lower() == "all" else kind_of(kind)
    if found is None:
        if name is not None:
            raise no_such_kind(kind)
        service = service_part(kind)
        found, name = ("Service", service) if service else ("Session", kind)
    check_sort_order(sort)
    query = GetQuery.of(
        kind=found, name=name or "", project=project or "", phase=phase, selector=selector, sort=sort,
        mine=mine, owners=own_names(settings) if mine else (), form=form_of(format),
    )  # fmt: skip
    check_choice(query, watch=watch)
    if usage:
        from bai.cli.inspect.volume_usage import list_volume_usage

        list_volume_usage(settings, query)
    elif watch:
        from bai.cli.inspect.session_watch import list_and_watch

        list_and_watch(settings, query)
    else:
        from bai.cli.output import print_printout
        from bai.cli.reading import read

        print_printout(settings, read(settings, query))
