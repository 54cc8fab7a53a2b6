"""Options of the commands that run loops, and what they mean together."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bai.cli.options import seconds_of
from bai.settings import Settings

if TYPE_CHECKING:
    from bai.controller.document_sources import Origin
    from bai.controller.loop_threads import Manner


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
Inside = Annotated[str, typer.Option("--path", help="Of the remote: the folder of the documents.")]
Freedom = Annotated[
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


def within(settings: Settings, directory: Path | None) -> Settings:
    """The settings with the folder that is named, if one is."""
    return settings if directory is None else replace(settings, directory=directory)


def manner_of(mode: Mode, interval: str, parallel: int, lease: str, stuck_after: str) -> Manner:
    """Raises CommandError for what is no time to wait."""
    from bai.controller.loop_threads import Manner

    return Manner(
        seconds_of(interval, "--interval"), mode is Mode.observe, parallel,
        lease=seconds_of(lease, "--lease"), stuck_after=seconds_of(stuck_after, "--stuck-after"),
    )  # fmt: skip


def origin_of(remote: str | None, ref: str, path: str, mode: Mode) -> Origin | None:
    """The remote that is named, if one is. Raises CommandError for what goes with one only."""
    from bai.controller.document_sources import Origin
    from schemas.problems.errors import CommandError

    if remote is not None:
        return Origin(remote, ref, path, mode is Mode.approve)
    if ref or path or mode is Mode.approve:
        raise CommandError(why="--ref, --path and --mode approve go with --remote", hint="name the remote")
    return None
