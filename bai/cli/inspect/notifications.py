"""Notifications on the command line: how they stand, and a message to try one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from bai.settings import Settings

if TYPE_CHECKING:
    from reconciler.notify.state import Outbox
    from reconciler.store.store import Store
    from reconciler.workspace.workspace import Workspace
    from schemas.kinds.notification import Notification
    from schemas.repository.repository import Repository


def list_notifications(settings: Settings, workspace: Workspace, *, as_json: bool) -> None:
    """Print those of the chosen cluster."""
    from bai.cli.output import print_json, print_table

    cluster = workspace.cluster.name
    found = _notifications(workspace.repository, cluster)
    boxes = _outboxes(workspace.existing_store, cluster)
    if as_json:
        items = [_json(each, boxes.get(each.name)) for each in found]
        print_json("bai.notifications/v1", items=items)
        return
    columns = ["name", "to", "events", "sent", "failed", "waiting", "left out", "last"]
    rows = [_row(each, boxes.get(each.name)) for each in found]
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


def _outboxes(store: Store | None, cluster: str) -> dict[str, Outbox]:
    from reconciler.notify.state import parse_state, state_key

    state = parse_state(store.meta(state_key(cluster))) if store is not None else None
    return dict(state.boxes) if state else {}


def _waiting_count(box: Outbox) -> int:
    return len(box.waiting) + (len(box.sending.news) if box.sending else 0)


def _row(each: Notification, box: Outbox | None) -> list[str]:
    from bai.render.humanize import iso_time

    start = [each.name, each.spec.to.kind, ", ".join(each.spec.events)]
    if box is None:
        return [*start, "0", "0", "0", "0", "never"]
    last = f"{iso_time(box.last.at)} {box.last.said}" if box.last else "never"
    return [*start, str(box.sent), str(box.failed), str(_waiting_count(box)), str(box.lost), last]


def _json(each: Notification, box: Outbox | None) -> dict[str, Any]:
    from reconciler.notify.message import format_time
    from reconciler.notify.state import Outbox

    box = box or Outbox()
    last = box.last and {
        "at": format_time(box.last.at), "good": box.last.good, "said": box.last.said, "title": box.last.title,
    }  # fmt: skip
    return {
        "name": each.name, "to": each.spec.to.kind, "events": list(each.spec.events), "sent": box.sent,
        "failed": box.failed, "waiting": _waiting_count(box), "leftOut": box.lost, "last": last or None,
    }  # fmt: skip
