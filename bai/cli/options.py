"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

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
Yes = Annotated[
    bool, typer.Option("--yes", "-y", "--auto-approve", help="Do not ask; needed without a terminal.")
]
Parallel = Annotated[int, typer.Option("--parallel", min=1, max=256, help="Most actions at a time.")]
Offline = Annotated[
    bool, typer.Option("--offline", help="Ask no provider: go by declared and recorded nodes.")
]
RefreshOnly = Annotated[
    bool, typer.Option("--refresh-only", help="Only compare what runs with what is recorded; plan no change.")
]
