"""`bai rollback`."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from bai.cli.formats import PlanFormat
from bai.cli.lazy_commands import new_app
from bai.cli.options import Why, Yes
from bai.settings import settings_of

app = new_app()


@app.command()
def rollback(
    ctx: typer.Context,
    commit: Annotated[str, typer.Argument(metavar="COMMIT", help="What the cluster is to be brought to.")],
    why: Why = "",
    yes: Yes = False,
) -> None:
    """Bring the cluster to an earlier commit and hold it there, whatever is pushed, until `bai resume`.

    Shows what that changes, and asks. The loop carries it out; where none runs, `bai apply --revision` does.
    """
    from bai.cli.changes.give_directive import desk
    from bai.cli.changes.show_plan import show_plan
    from bai.cli.confirm import confirm

    settings = settings_of(ctx)
    with desk(settings) as here:
        by = here.told(why, commit)
        there = replace(settings, revision=by.commit, cluster=here.cluster)
        with there.workspace() as workspace:
            show_plan(there, workspace, workspace.plan(), PlanFormat.text, offline=False)
        confirm(f"Hold cluster {here.cluster} at {by.commit[:12]}?", yes=yes)
        here.give("pin", by)
        name = here.cluster
    typer.echo(f"Cluster {name} is held at {by.commit[:12]}; `bai resume` follows its documents again.")
