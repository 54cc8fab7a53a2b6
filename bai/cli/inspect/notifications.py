"""Notifications on the command line: how they stand, and a message to try one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from bai.settings import Settings

if TYPE_CHECKING:
    from reconciler.notify.state import Outbox
    from reconciler.workspace.workspace import Workspace
    from schemas.kinds.notification import Notification
    from schemas.repository.repository import Repository


def list_notifications(settings: Settings, workspace: Workspace, *, as_json: bool) -> None:
    """Print those of the chosen cluster."""
    from bai.cli.output import print_json, print_table
    from bai.queries.facts.notifications import notification_boxes

    found = notification_boxes(workspace.repository, workspace.existing_store, workspace.cluster.name)
    if as_json:
        items = [_json(each, box) for each, box in found]
        print_json("bai.notifications/v1", items=items)
        return
    columns = ["name", "to", "events", "sent", "failed", "waiting", "left out", "last"]
    rows = [_row(each, box) for each, box in found]
    print_table(settings, columns, rows, empty="There is no Notification for this cluster.")


def send_test(workspace: Workspace, name: str, *, show: bool) -> None:
    """Raises NoSuchResource, NotSent, NotSentNow."""
    from bai.actor import current_actor
    from bai.render.humanize import clean
    from reconciler.notify.delivery import deliver
    from reconciler.notify.message import build_message
    from reconciler.notify.news import News
    from reconciler.notify.state import Batch
    from schemas.problems.errors.command import NoSuchResource
    from schemas.problems.text import did_you_mean

    now, cluster = workspace.clock.now(), workspace.cluster.name
    found = {each.name: each for each in _notifications(workspace.repository, cluster)}
    if name not in found:
        raise NoSuchResource(what="notification", name=name, hint=did_you_mean(name, found))
    news = News(
        f"test/{now}", "test", cluster, "this is a test; nothing has happened", now, actor=current_actor()
    )
    message = build_message(found[name], Batch((news,)))
    if show:
        text = message.body.decode() if message.body else f"{message.title}\n\n{message.text}"
        for line in text.splitlines():
            typer.echo(clean(line))
        return
    typer.echo(f"{name}: {deliver(found[name], message, workspace.secrets.for_infrastructure)}")


def _notifications(repository: Repository, cluster: str) -> tuple[Notification, ...]:
    from reconciler.notify.conditions import notifications_for_cluster
    from schemas.kinds.notification import Notification

    return notifications_for_cluster(repository.of(Notification), cluster)


def _row(each: Notification, box: Outbox) -> list[str]:
    from bai.queries.facts.notifications import waiting_count
    from bai.render.humanize import iso_time

    last = f"{iso_time(box.last.at)} {box.last.said}" if box.last else "never"
    counts = (box.sent, box.failed, waiting_count(box), box.lost)
    return [each.name, each.spec.to.kind, ", ".join(each.spec.events), *map(str, counts), last]


def _json(each: Notification, box: Outbox) -> dict[str, Any]:
    from bai.queries.facts.notifications import waiting_count
    from reconciler.notify.message import format_time

    last = box.last and {
        "at": format_time(box.last.at), "good": box.last.good, "said": box.last.said, "title": box.last.title,
    }  # fmt: skip
    return {
        "name": each.name, "to": each.spec.to.kind, "events": list(each.spec.events), "sent": box.sent,
        "failed": box.failed, "waiting": waiting_count(box), "leftOut": box.lost, "last": last or None,
    }  # fmt: skip
