"""`bai rollback`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from bai.cli.context import settings_of
from bai.cli.formats import PlanFormat, PlanView
from bai.cli.lazy_commands import new_app
from bai.cli.options import ReasonOption, Yes

if TYPE_CHECKING:
    from bai.remote.cluster import RemoteCluster
    from bai.settings import Settings

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
    from bai.cli.loops.directives import ServerOrders, open_orders

    settings = settings_of(ctx)
    with open_orders(settings) as orders:
        found, name = orders.find_commit(commit), orders.cluster
        if isinstance(orders, ServerOrders):
            _show_review(settings, orders.remote, found)
        else:
            _show_plan(replace(settings, revision=found, cluster=name), found)
        confirm(f"Hold cluster {name} at {found[:12]}?", yes=yes)
        held = orders.give_for_commit("pin", found, why)
    typer.echo(f"Cluster {name} is held at {held[:12]}; `bai resume` follows its documents again.")


def _show_plan(there: Settings, commit: str) -> None:
    from bai.cli.plans.show_plan import show_plan

    with there.workspace() as workspace:
        view = PlanView(everything=f"`bai plan --revision {commit[:12]} --details`")
        show_plan(there, workspace, workspace.plan(), PlanFormat.text, offline=False, view=view)


def _show_review(settings: Settings, remote: RemoteCluster, commit: str) -> None:
    from bai.cli.output import console, print_printout
    from bai.queries.models import ReviewQuery

    columns = min(400, max(40, console(settings).width))
    print_printout(settings, remote.read(ReviewQuery.of(commit=commit, columns=columns)))
