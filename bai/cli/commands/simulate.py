"""`bai simulate`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bai.cli.formats import PlanFormat
from bai.cli.lazy_commands import new_app
from bai.cli.options import HowPlan
from bai.settings import settings_of

if TYPE_CHECKING:
    from bai.traces.policies import Trial
    from planner.simulation.values import Replay

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
    format: HowPlan = PlanFormat.text,
    svg: Annotated[
        Path | None, typer.Option("--svg", metavar="FILE", help="Write the curves there as a picture.")
    ] = None,
) -> None:
    """Replay a trace on the declared cluster in virtual time, under each policy named; nothing is started."""
    from bai.cli.atomic_files import write_whole
    from bai.cli.inspect.simulation_input import policies_of, read
    from bai.cli.output import print_json, show_report
    from bai.render.analysis.simulation import as_json, sections
    from bai.render.analysis.simulation_svg import render
    from bai.traces.policies import trials
    from planner.simulation.measures import report
    from planner.simulation.replay import replay

    settings = settings_of(ctx)
    limit = _duration(until)
    cluster, jobs = read(settings, trace, nodes, group, load)
    policies, known = policies_of(cluster, queue, selection)
    found: list[tuple[Trial, Replay]] = []
    for trial in trials(cluster.groups, queue, selection, numa, known):
        here = type(cluster)(cluster.nodes, trial.groups, cluster.quotas)
        found.append((trial, replay(here, jobs, policies, until=limit)))
    reports = [(trial.name, report(one)) for trial, one in found]
    if svg is not None:
        write_whole(svg, render(str(trace.name), [(trial.name, one) for trial, one in found]))
    if format is PlanFormat.json:
        print_json("bai.simulation/v1", trace=str(trace), policies=[as_json(*one) for one in reports])
        return
    show_report(settings, sections(reports), format)


def _duration(text: str | None) -> float | None:
    from schemas.problems.errors import CommandError
    from schemas.values.quantities import parse_duration

    try:
        return None if text is None else float(parse_duration(text))
    except ValueError as error:
        raise CommandError(why=f"--until: {error}") from None
