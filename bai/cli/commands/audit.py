"""`bai audit`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from bai.cli.formats import Format
from bai.cli.lazy_commands import new_app
from bai.cli.options import How
from bai.settings import settings_of

if TYPE_CHECKING:
    from reconciler.values.records import Audit
    from reconciler.workspace.workspace import Workspace

app = new_app()


@app.command()
def audit(
    ctx: typer.Context,
    resource: Annotated[str | None, typer.Argument(metavar="[RESOURCE]", help="Only of this one.")] = None,
    actor: Annotated[str, typer.Option(metavar="NAME", help="Only by those whose name begins so.")] = "",
    commit: Annotated[str, typer.Option(metavar="COMMIT", help="Only from this commit; may be short.")] = "",
    plan: Annotated[str, typer.Option(metavar="DIGEST", help="Only by this plan; may be short.")] = "",
    since: Annotated[
        str, typer.Option(metavar="TIME", help="2026-01-31, 2026-01-31T12:00:00Z, or 36h: that long ago.")
    ] = "",
    until: Annotated[str, typer.Option(metavar="TIME", help="The same: only what was before.")] = "",
    tail: Annotated[int, typer.Option("--tail", "-n", min=0, metavar="COUNT", help="Only the last.")] = 100,
    changes: Annotated[bool, typer.Option("--changes", help="Show each field that changed.")] = False,
    format: How = Format.text,
) -> None:
    """Show who changed what, from which commit, by which plan. Nothing is ever removed from it.

    \b
    bai audit llama --changes          what became of one session's document and place
    bai audit --actor ada --since 7d   everything that somebody did in a week
    """
    import time

    from bai.cli.time_arguments import moment_of

    now = time.time()
    begin = moment_of(since, now).timestamp() if since else None
    end = moment_of(until, now).timestamp() if until else None
    with settings_of(ctx).workspace() as workspace:
        cluster = workspace.desired().cluster
        found: tuple[Audit, ...] = ()
        if workspace.has_store:
            found = workspace.store.audit(
                cluster, resource=_identity(workspace, cluster, resource), actor=actor, commit=commit,
                plan=plan, since=begin, until=end, limit=tail,
            )  # fmt: skip
    if format is Format.json:
        from bai.cli.output import print_json
        from bai.render.resources.audit import audit_json

        print_json("bai.audit/v1", cluster=cluster, entries=[audit_json(entry) for entry in found])
        return
    if not found:
        typer.echo("There is no such entry.", err=True)
    for entry in found:
        for line in lines_of(entry, changes=changes):
            typer.echo(line)


def _identity(workspace: Workspace, cluster: str, name: str | None) -> str | None:
    """The full identity of a resource that is, or ever was."""
    from bai.cli.resource_names import resolve

    if name is None:
        return None
    past = workspace.store.audited(cluster)
    return resolve(name, {*past, *workspace.store.recorded(cluster), *workspace.desired().digests})


def lines_of(entry: Audit, *, changes: bool) -> list[str]:
    """One entry in words."""
    from bai.render.humanize import clean, contrasted, moment

    what = f"{clean(entry.verb)} {clean(entry.resource)}".rstrip()
    cause = f": {clean(entry.cause)}" if entry.cause else ""
    commit = f" at {clean(entry.commit[:12])}" if entry.commit else ""
    plan = f" plan {clean(entry.plan[:12])}" if entry.plan else ""
    lines = [f"{moment(entry.at)}  {what}{cause}  by {clean(entry.actor)}{commit}{plan}"]
    if changes:
        for each in entry.changes:
            before, after = contrasted(each.before or "-", each.after or "-", 60)
            lines.append(f"    {clean(each.path)}: {before} -> {after}")
    return lines
