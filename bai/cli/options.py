"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from bai.cli.formats import Format, ListFormat, PlanFormat

Targets = Annotated[
    list[str] | None,
    typer.Option(
        "--target", "-t", metavar="RESOURCE", help="Only this resource and what it needs; may be repeated."
    ),
]
Replace = Annotated[
    list[str] | None,
    typer.Option(
        "--replace",
        metavar="RESOURCE",
        help="Stop this session and start it anew, though nothing changed; may be repeated.",
    ),
]
Defragment = Annotated[
    bool,
    typer.Option(
        "--defragment", help="Move sessions that allow it (`movable`) where that joins free devices or cores."
    ),
]
MaxMoves = Annotated[
    int, typer.Option("--max-moves", min=1, max=1000, help="Most sessions that --defragment moves.")
]
Branch = Annotated[str, typer.Option("--branch", help="Push to this new branch, for a pull request.")]
Push = Annotated[bool, typer.Option("--push/--no-push", help="Or commit only, and apply from here.")]
ReasonOption = Annotated[str, typer.Option("--why", metavar="TEXT", help="For those who wonder.")]
FormatOption = Annotated[Format, typer.Option("--format", help="How to print it.")]
FormatOptionWithShort = Annotated[Format, typer.Option("--format", "-o", help="How to print it.")]
PlanFormatOption = Annotated[PlanFormat, typer.Option("--format", help="How to print it.")]
ListFormatOption = Annotated[ListFormat, typer.Option("--format", "-o", help="How to print it.")]
Details = Annotated[bool, typer.Option("--details", help="Tell everything one by one, however much it is.")]
NoPager = Annotated[
    bool, typer.Option("--no-pager", help="Do not put it through $BAI_PAGER, $PAGER or `less` at a terminal.")
]
Yes = Annotated[
    bool, typer.Option("--yes", "-y", "--auto-approve", help="Do not ask; needed without a terminal.")
]
Parallel = Annotated[int, typer.Option("--parallel", min=1, max=256, help="Most actions at a time.")]
Offline = Annotated[
    bool, typer.Option("--offline", help="Ask no provider: go by declared and recorded nodes.")
]
NoCheck = Annotated[
    bool,
    typer.Option(
        "--no-check", help="Do not ask the roles of nodes that are to be provisioned what they would change."
    ),
]
NoWait = Annotated[
    bool,
    typer.Option(
        "--no-wait",
        help="Do not follow the updates of services: a loop or the next `bai apply` goes on with them.",
    ),
]
RefreshOnly = Annotated[
    bool, typer.Option("--refresh-only", help="Only compare what runs with what is recorded; plan no change.")
]
RefreshHardware = Annotated[
    bool,
    typer.Option(
        "--refresh-hardware", help="Probe all nodes again that declare no hardware, not only unknown ones."
    ),
]


def parse_seconds(text: str, option: str) -> float:
    """Raises CommandError for what is no duration, or none that lets anything else happen."""
    from schemas.problems.errors.command import CommandError
    from schemas.values.quantities import parse_duration

    try:
        seconds = float(parse_duration(text))
    except ValueError as error:
        raise CommandError(why=f"{option}: {error}") from None
    if seconds < 1:
        raise CommandError(why=f"{option}: at least 1s")
    return seconds
