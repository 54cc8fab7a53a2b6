"""Options of the commands that run loops, and what they mean together."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bai.cli.options import parse_seconds
from bai.settings import Settings

if TYPE_CHECKING:
    from bai.controller.document_sources import RemoteOrigin
    from bai.controller.loop_threads import LoopSettings


class Mode(StrEnum):
    """What the loop may do by itself."""

    auto = "auto"
    approve = "approve"
    observe = "observe"


Directory = Annotated[
    Path | None, typer.Argument(metavar="[DIR]", help="The repository; default: as with --directory.")
]
Remote = Annotated[
    str | None, typer.Option("--remote", metavar="URL", help="Follow this git remote, not a folder.")
]
Ref = Annotated[
    str, typer.Option("--ref", help="Of the remote: a branch, tag or commit; default: its main branch.")
]
PathInRemote = Annotated[str, typer.Option("--path", help="Of the remote: the folder of the documents.")]
ModeOption = Annotated[
    Mode,
    typer.Option("--mode", help="`approve`: new commits wait for `bai approve`. `observe`: change nothing."),
]
Interval = Annotated[
    str, typer.Option("--interval", metavar="DURATION", help="Longest time between two passes.")
]
Lease = Annotated[
    str,
    typer.Option(
        "--lease",
        metavar="DURATION",
        help="Of several replicas on one server's store: how long one is silent before another goes on.",
    ),
]
StuckAfter = Annotated[
    str,
    typer.Option(
        "--stuck-after",
        metavar="DURATION",
        help="A loop at work that shows no life for so long is stuck, which the watchdog hears.",
    ),
]
Prometheus = Annotated[
    str,
    typer.Option(
        "--prometheus",
        metavar="URL",
        help="Of the Prometheus that services ask that are scaled by a query, such as http://prometheus:9090.",
    ),
]
NodeConnections = Annotated[
    int,
    typer.Option(
        "--node-connections",
        metavar="N",
        min=64,
        help="Most SSH connections to nodes that are kept open; no fewer than there are nodes is best.",
    ),
]


def with_directory(settings: Settings, directory: Path | None) -> Settings:
    """The settings with the folder that is named, if one is."""
    return settings if directory is None else replace(settings, directory=directory)


def loop_settings(
    mode: Mode, interval: str, parallel: int, lease: str, stuck_after: str, prometheus: str
) -> LoopSettings:
    """Raises CommandError for what is no time to wait."""
    from bai.actor import current_actor
    from bai.controller.loop_threads import LoopSettings
    from reconciler.controller.loop_options import LoopOptions

    seconds = parse_seconds(interval, "--interval")
    return LoopSettings(
        LoopOptions(current_actor(), seconds, observe_only=mode is Mode.observe, parallel=parallel),
        lease=parse_seconds(lease, "--lease"), stuck_after=parse_seconds(stuck_after, "--stuck-after"),
        prometheus=prometheus,
    )  # fmt: skip


def keep_node_connections(most: int) -> None:
    """Let this process keep so many connections to nodes open."""
    from providers.machines.connections import set_connection_limit

    set_connection_limit(most)


def remote_origin(remote: str | None, ref: str, path: str, mode: Mode) -> RemoteOrigin | None:
    """The remote that is named, if one is. Raises CommandError for what goes with one only."""
    from bai.controller.document_sources import RemoteOrigin
    from schemas.problems.errors.command import CommandError

    if remote is not None:
        return RemoteOrigin(remote, ref, path, mode is Mode.approve)
    if ref or path or mode is Mode.approve:
        raise CommandError(why="--ref, --path and --mode approve go with --remote", hint="name the remote")
    return None
