"""`bai rollback`."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from bai.cli.context import settings_of
from bai.cli.formats import PlanFormat, PlanView
from bai.cli.lazy_commands import new_app
from bai.cli.options import ReasonOption, Yes

app = new_app()


@app.command()
def rollback(
    ctx: typer.Context,
    commit: Annotated[str, typer.Argument(metavar="COMMIT", help="What the cluster is to be brought to.")],
    why: ReasonOption = "",
    yes: Yes = False,
) -> None:
    """Bring the cluster to an earlier commit and hold it there, whatever is pushed, until `bai resume`.

    Shows what that changes, and asks. The loop carries it out; where none runs, `bai apply --revision` does.
    """
    from bai.cli.confirm import confirm
    from bai.cli.loops.directives import open_directives
    from bai.cli.plans.show_plan import show_plan

    settings = settings_of(ctx)
    with open_directives(settings) as target:
        by = target.new_directive(why, commit)
        there = replace(settings, revision=by.commit, cluster=target.cluster)
        with there.workspace() as workspace:
            view = PlanView(everything=f"`bai plan --revision {by.commit[:12]} --details`")
            show_plan(there, workspace, workspace.plan(), PlanFormat.text, offline=False, view=view)
        confirm(f"Hold cluster {target.cluster} at {by.commit[:12]}?", yes=yes)
        target.give("pin", by)
        name = target.cluster
    typer.echo(f"Cluster {name} is held at {by.commit[:12]}; `bai resume` follows its documents again.")
