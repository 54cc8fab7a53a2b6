"""What the store has recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from bai.cli.formats import Format
from bai.settings import Settings

if TYPE_CHECKING:
    from reconciler.values.records import Lease, Recorded
    from reconciler.workspace.workspace import Workspace


def list_state(settings: Settings, workspace: Workspace, format: Format) -> None:
    """Print records, lease and open steps of the chosen cluster."""
    from bai.cli.output import print_json, print_table
    from schemas.problems.errors.command import CommandError

    cluster = workspace.desired().cluster
    if not workspace.has_store:
        raise CommandError(why=f"there is no store at {workspace.state}", hint="the first apply makes it")
    records = workspace.store.recorded(cluster)
    lease, open_steps = workspace.store.lease(cluster), workspace.store.open_intents(cluster)
    if format is Format.json:
        print_json(
            "bai.state/v1",
            cluster=cluster,
            store=str(workspace.state),
            lease=_lease_json(lease),
            resources=[_record_json(record) for record in records.values()],
            openSteps=[{"action": e.action, "step": e.step, "kernel": e.kernel} for e in open_steps],
        )
        return
    print_table(
        settings,
        ["resource", "generation", "digest", "phase", "kernels", "protected"],
        [
            [
                r.resource,
                str(r.generation),
                r.digest,
                r.phase,
                str(len(r.kernels)),
                "yes" if r.protected else "",
            ]
            for r in records.values()
        ],
    )
    if lease is not None:
        from bai.render.humanize import clean, iso_time

        typer.echo(f"Lease: {clean(lease.holder)}, token {lease.token}, until {iso_time(lease.expires)}.")
    for entry in open_steps:
        typer.echo(f"Open: {entry.step} of {entry.action}; the next apply finds out.")


def _record_json(record: Recorded) -> dict[str, object]:
    from bai.render.humanize import iso_time

    return {
        "id": record.resource,
        "generation": record.generation,
        "digest": record.digest,
        "phase": record.phase,
        "protected": record.protected,
        "commit": record.commit,
        "kernels": list(record.kernels),
        "enqueuedAt": iso_time(record.enqueued_at),
        "startedAt": iso_time(record.started_at),
        "finishedAt": iso_time(record.finished_at),
        "result": record.result,
        "reason": record.reason,
    }


def _lease_json(lease: Lease | None) -> object:
    from bai.render.humanize import iso_time

    if lease is None:
        return None
    return {"holder": lease.holder, "token": lease.token, "expires": iso_time(lease.expires)}
