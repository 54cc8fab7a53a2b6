"""`bai top`."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from bai.cli.completion import complete_sessions
from bai.cli.context import settings_of
from bai.cli.formats import Format
from bai.cli.lazy_commands import new_app

if TYPE_CHECKING:
    from bai.cli.sessions.usage_samples import UsageMeter
    from bai.settings import Settings

app = new_app()


class Sort(StrEnum):
    """What comes first."""

    cpu = "cpu"
    memory = "memory"
    network = "network"
    gpu = "gpu"
    name = "name"


class UsageLook(NamedTuple):
    """How one wants to see it."""

    interval: float
    once: bool
    sort: Sort
    format: Format


@app.command()
def top(
    ctx: typer.Context,
    session: Annotated[
        str | None,
        typer.Argument(metavar="[SESSION]", help="Only this one.", autocompletion=complete_sessions),
    ] = None,
    interval: Annotated[
        float,
        typer.Option("--interval", "-i", min=0.2, max=3600, metavar="SECONDS", help="Between looks."),
    ] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="One table; also where there is no terminal.")] = False,
    sort: Annotated[Sort, typer.Option("--sort", "-s", help="What comes first.")] = Sort.cpu,
    format: Annotated[Format, typer.Option("--format", help="JSON is one look.")] = Format.text,
) -> None:
    """Show what sessions use: CPU (100 is one core), memory, network, processes, GPUs.

    Rates are over the interval; `-` is not known. A session of several containers has a line for all.

    \b
    bai top                          live, until Ctrl-C
    bai top --once --sort gpu        one table
    bai top llama --format json      for a program
    """
    from bai.cli.reading import remote_cluster
    from bai.cli.sessions.usage_samples import RemoteUsage, UsageMeter

    settings = settings_of(ctx)
    look = UsageLook(interval, once, sort, format)
    remote = remote_cluster(settings)
    if remote is not None:
        only = str(remote.session(session)["id"]) if session else None
        _show(settings, UsageMeter(RemoteUsage(remote), only), look)
        return
    from bai.cli.sessions.own_kernels import OwnKernels
    from bai.cli.sessions.usage_samples import OwnUsage
    from bai.queries.names.resource_names import resolve_name

    with settings.reading_workspace() as workspace:
        only = resolve_name(session, workspace.actual().existing, "Session") if session else None
        source = OwnUsage(OwnKernels(workspace.provider, workspace.cluster, workspace.repo_id))
        _show(settings, UsageMeter(source, only), look)


def _show(settings: Settings, meter: UsageMeter, look: UsageLook) -> None:
    from bai.cli.sessions.usage_table import on_terminal, print_usage, print_usage_json, print_usage_live

    if look.format is Format.json:
        print_usage_json(next(meter.every(look.interval)), look.interval)
    elif look.once or not on_terminal():
        print_usage(settings, next(meter.every(look.interval)), look.sort)
    else:
        print_usage_live(settings, meter, look.interval, look.sort)
