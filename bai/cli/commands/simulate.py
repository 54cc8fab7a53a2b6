"""`bai simulate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bai.cli.context import settings_of
from bai.cli.formats import PlanFormat
from bai.cli.lazy_commands import new_app
from bai.cli.options import PlanFormatOption

app = new_app()


@app.command()
def simulate(
    ctx: typer.Context,
    trace: Annotated[
        Path, typer.Option("--trace", metavar="FILE", help="A queue file, or an openb list of pods.")
    ],
    nodes: Annotated[
        Path | None,
        typer.Option("--nodes", metavar="FILE", help="An openb list of nodes, in place of the repository's."),
    ] = None,
    queue: Annotated[
        str | None,
        typer.Option("--queue", metavar="NAMES", help="Compare these: fifo,fifo:maxSkips=0:backfill,drf,..."),
    ] = None,
    selection: Annotated[
        str | None,
        typer.Option("--selection", metavar="NAMES", help="Compare these: concentrated,dispersed,..."),
    ] = None,
    numa: Annotated[
        str | None,
        typer.Option("--numa", metavar="NAMES", help="Compare these: prefer-single-node,interleaving."),
    ] = None,
    group: Annotated[
        str | None, typer.Option("--group", metavar="NAME", help="Put all sessions into this resource group.")
    ] = None,
    load: Annotated[
        float, typer.Option("--load", metavar="FACTOR", help="Let sessions arrive so many times as densely.")
    ] = 1.0,
    until: Annotated[
        str | None, typer.Option("--until", metavar="DURATION", help="Stop so long after the first arrival.")
    ] = None,
    format: PlanFormatOption = PlanFormat.text,
    svg: Annotated[
        Path | None, typer.Option("--svg", metavar="FILE", help="Write the curves there as a picture.")
    ] = None,
) -> None:
    """Replay a trace on the declared cluster in virtual time, under each policy named; nothing is started."""
    from bai.cli.inspect.simulation_input import read_simulation, replay_trials
    from bai.cli.output import print_json, print_report
    from bai.render.analysis.simulation import policy_json, simulation_sections
    from bai.render.analysis.simulation_svg import render_simulation_svg
    from planner.simulation.measures import report
    from schemas.files.atomic_files import write_atomically

    settings = settings_of(ctx)
    limit = _parse_until(until)
    cluster, jobs = read_simulation(settings, trace, nodes, group, load)
    replays = replay_trials(cluster, jobs, queue, selection, numa, until=limit)
    reports = [(name, report(one)) for name, one in replays]
    if svg is not None:
        write_atomically(svg, render_simulation_svg(str(trace.name), replays))
    if format is PlanFormat.json:
        print_json("bai.simulation/v1", trace=str(trace), policies=[policy_json(*one) for one in reports])
        return
    print_report(settings, simulation_sections(reports), format)


def _parse_until(text: str | None) -> float | None:
    from schemas.problems.errors.command import CommandError
    from schemas.values.quantities import parse_duration

    try:
        return None if text is None else float(parse_duration(text))
    except ValueError as error:
        raise CommandError(why=f"--until: {error}") from None
