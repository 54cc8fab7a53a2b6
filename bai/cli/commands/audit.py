"""`bai audit`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from bai.cli.context import settings_of
from bai.cli.formats import Format
from bai.cli.lazy_commands import new_app
from bai.cli.options import FormatOption

if TYPE_CHECKING:
    from reconciler.values.records import Audit

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
    format: FormatOption = Format.text,
) -> None:
    """Show who changed what, from which commit, by which plan. Nothing is ever removed from it.

    \b
    bai audit llama --changes          what became of one session's document and place
    bai audit --actor ada --since 7d   everything that somebody did in a week
    """
    import time

    from bai.cli.resource_names import resolve_with_past
    from bai.cli.time_arguments import parse_time
    from reconciler.sources.commit_facts import CommitFacts, read_commit_facts

    now = time.time()
    begin = parse_time(since, now).timestamp() if since else None
    end = parse_time(until, now).timestamp() if until else None
    with settings_of(ctx).reading_workspace() as workspace:
        desired, store = workspace.desired(), workspace.existing_store
        cluster = desired.cluster
        found: tuple[Audit, ...] = ()
        if store is not None:
            identity = None
            if resource is not None:
                identity = resolve_with_past(resource, store.audited_resources(cluster), desired, store)
            found = store.audit(
                cluster, resource=identity, actor=actor, commit=commit, plan=plan, since=begin, until=end,
                limit=tail,
            )  # fmt: skip
        facts = read_commit_facts(workspace.source.git, (entry.commit for entry in found))
    entries = [(entry, facts.get(entry.commit, CommitFacts()).author) for entry in found]
    if format is Format.json:
        from bai.cli.output import print_json
        from bai.render.resources.audit import audit_json

        shown = [audit_json(entry, author) for entry, author in entries]
        print_json("bai.audit/v1", cluster=cluster, entries=shown)
        return
    from bai.render.resources.audit import audit_lines

    if not found:
        typer.echo("There is no such entry.", err=True)
    for entry, author in entries:
        for line in audit_lines(entry, author, changes=changes):
            typer.echo(line)
