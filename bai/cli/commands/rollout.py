"""`bai rollout`: status, undo, resume."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from bai.cli.context import settings_of
from bai.cli.lazy_commands import new_app
from bai.cli.options import ReasonOption, parse_seconds

if TYPE_CHECKING:
    from bai.queries.services.undo import Undo

app = new_app(help="Watch a service's rollout, and go back to before it.", no_args_is_help=True)
ServiceName = Annotated[
    str, typer.Argument(metavar="SERVICE", help="service/chat, chat or service/team/chat.")
]


@app.command()
def status(
    ctx: typer.Context,
    service: ServiceName,
    timeout: Annotated[
        str, typer.Option("--timeout", metavar="DURATION", help="Wait so long at most, such as 10m.")
    ] = "",
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Or say once how far it is.")] = True,
) -> None:
    """Wait until a service is what its document says, with a line for each change.

    The exit code is 0 once it is complete, 1 where its generation was given up or the time is over; with
    --no-wait 0 in any case.
    """
    from bai.cli.services.rollout_watch import follow_rollout, service_look, status_line

    limit = parse_seconds(timeout, "--timeout") if timeout else None
    look = service_look(settings_of(ctx), _plain_name(service))
    if not wait:
        _say(status_line(look()))
        return
    outcome = follow_rollout(look, _say, timeout=limit)
    if not outcome.good:
        typer.echo(outcome.why, err=True)
        raise typer.Exit(1)


@app.command()
def undo(
    ctx: typer.Context,
    service: ServiceName,
    to: Annotated[
        str,
        typer.Option("--to", metavar="GENERATION", help="One that `bai describe service/NAME` lists."),
    ] = "",
    why: ReasonOption = "",
) -> None:
    """Bring a service back to a generation it had: to the last that was complete before the one that is
    wanted now, so that a second `undo` takes back the first.

    That holds until its document changes, or `bai rollout resume`; git says otherwise all the while. The loop
    carries it out; where none runs, `bai apply` does.
    """
    from bai.cli.services.rollout_orders import open_rollouts

    with open_rollouts(settings_of(ctx)) as orders:
        found = orders.undo(_plain_name(service), to, why)
    for line in _undo_lines(found):
        _say(line)


@app.command()
def resume(ctx: typer.Context, service: ServiceName, why: ReasonOption = "") -> None:
    """Have a service go by its document again, after `undo`."""
    from bai.cli.services.rollout_orders import open_rollouts
    from bai.render.humanize import clean

    with open_rollouts(settings_of(ctx)) as orders:
        identity, ended = orders.resume(_plain_name(service), why)
    words = "again" if ended else "already: there is no order to end"
    _say(f"{clean(identity)} goes by its document {words}.")


def _undo_lines(found: Undo) -> list[str]:
    from bai.render.humanize import clean
    from bai.render.resources.services import command_name

    of = f" (commit {clean(found.commit[:12])})" if found.commit else ""
    if found.ends_order:
        back = f"{clean(found.service)} goes by its document again: generation {clean(found.generation)}{of}."
        return [back]
    commit = clean(found.latest_commit[:12])
    last = f"`git revert {commit}`" if commit else "bring its document back to what it was"
    return [
        f"{clean(found.service)} goes back to generation {clean(found.generation)}{of}: "
        "the loop does that, or, where none runs, the next `bai apply`.",
        f"Git still says {clean(found.latest)}: this holds until its document changes, or "
        f"`bai rollout resume {command_name(found.service)}`. To make it last: {last}.",
    ]


def _plain_name(service: str) -> str:
    """Without the kind."""
    from bai.queries.names.service_names import service_part

    return service_part(service) or service


def _say(line: str) -> None:
    import sys

    from bai.cli.output import print_line

    print_line(line)
    sys.stdout.flush()
