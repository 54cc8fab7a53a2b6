"""News as a message: title, text, bytes for each kind of target. Pure: the same news, the same bytes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from planner.model.slots import plural
from reconciler.notify.news import News, truncate
from reconciler.notify.state import Batch
from schemas.kinds.notification import Notification
from schemas.problems.text import printable
from schemas.templates.rendering import render_text
from schemas.values.resource_ref import ref_of

MAX_LINES = 50
"""News of which a digest has a line; the rest is counted."""
_SEVERITY_PREFIXES = {"info": "", "warning": "warning: ", "error": "error: "}
_SEVERITY_RANK = {"info": 0, "warning": 1, "error": 2}
_SEVERITY_COLOURS = {"info": "#2f81f7", "warning": "#d29922", "error": "#da3633"}


@dataclass(frozen=True, slots=True)
class Message:
    """`id` is the same however often it is sent."""

    id: str
    title: str
    text: str
    severity: str
    at: float
    """Of its newest news."""
    body: bytes = b""
    """Of a target over HTTP."""


def build_message(notification: Notification, batch: Batch) -> Message:
    """What is sent. A template that cannot be filled in makes way for bai's own words, and it is said."""
    news = batch.news
    joined = "\n".join([notification.name, str(batch.left_out), *(each.id for each in news)])
    id = hashlib.sha256(f"{news[0].cluster}\n{joined}".encode()).hexdigest()[:32]
    severity = max((each.severity for each in news), key=_SEVERITY_RANK.__getitem__)
    escape = _escape_slack if notification.spec.to.slack is not None else str
    values = _template_values(notification, batch, id, severity, escape)
    title, text, wrong = _render_title_and_text(notification, batch, values, escape)
    made = Message(id, truncate(printable(title), 300), text, severity, max(each.at for each in news))
    if notification.spec.to.slack is not None:
        return _with_body(made, _slack_body(made))
    if notification.spec.to.http is not None:
        return _with_http_body(made, notification, batch, values, wrong)
    return made


def default_title(batch: Batch) -> str:
    """In bai's own words."""
    first = batch.news[0]
    if len(batch.news) == 1:
        where = first.resource or f"cluster {first.cluster}"
        over = " is over" if first.over else ""
        return f"{_SEVERITY_PREFIXES[first.severity]}{where}: {first.event.replace('-', ' ')}{over}"
    worst = sum(each.severity == "error" for each in batch.news)
    errors = f", {plural(worst, 'error')}" if worst else ""
    return f"{len(batch.news)} events of cluster {first.cluster}{errors}"


def _render_title_and_text(
    notification: Notification, batch: Batch, values: Mapping[str, Any], escape: Any
) -> tuple[str, str, str]:
    """Title, text, and what is wrong with the templates."""
    template = notification.spec.template
    title, text, wrong = escape(default_title(batch)), "\n".join(map(escape, _default_lines(batch))), []
    for name, own in (("title", template.title), ("text", template.text)):
        if own is None:
            continue
        try:
            made = render_text(own, values)
        except ValueError as error:
            wrong.append(f"template.{name} cannot be filled in: {error}")
            continue
        title, text = (made, text) if name == "title" else (title, made)
    if wrong:
        text = "\n".join([text, *map(escape, wrong)])
    return title, text, "; ".join(wrong)


def _default_lines(batch: Batch) -> Iterator[str]:
    for each in batch.news[:MAX_LINES]:
        yield _news_line(each, alone=len(batch.news) == 1)
    if len(batch.news) > MAX_LINES:
        yield f"and {plural(len(batch.news) - MAX_LINES, 'more event')}"
    if batch.left_out:
        yield f"{plural(batch.left_out, 'earlier event')} left out"


def _news_line(news: News, *, alone: bool) -> str:
    when = format_time(news.at)
    over = "over: " if news.over else ""
    commit = f", commit {news.commit[:12]}" if news.commit else ""
    about = "" if alone else f"{news.resource or news.cluster} {news.event}: "
    return printable(f"{when} {about}{over}{news.what}{commit}")


def format_time(at: float) -> str:
    """`2026-11-21T20:00:00Z`."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _template_values(
    notification: Notification, batch: Batch, id: str, severity: str, escape: Any
) -> dict[str, Any]:
    """What templates know; a digest's own words are those of its newest news."""
    every = [
        {key: escape(v) if isinstance(v, str) else v for key, v in news_values(n).items()} for n in batch.news
    ]
    return {
        **every[-1], "severity": severity, "id": id, "notification": notification.name, "news": every,
        "count": len(every), "more": batch.left_out,
    }  # fmt: skip


def news_values(news: News) -> dict[str, Any]:
    """One event as templates and JSON have it."""
    resource = ref_of(news.resource)
    return {
        "event": news.event, "severity": news.severity, "over": news.over, "at": format_time(news.at),
        "cluster": news.cluster, "resource": news.resource, "kind": resource.kind, "project": news.project,
        "name": resource.name, "what": printable(news.what), "actor": news.actor,
        "commit": news.commit,
    }  # fmt: skip


def _with_http_body(
    made: Message, notification: Notification, batch: Batch, values: Mapping[str, Any], wrong: str
) -> Message:
    body = notification.spec.template.body
    if body is not None:
        try:
            return _with_body(made, render_text(body, {**values, "title": made.title, "text": made.text}))
        except ValueError as error:
            wrong = "; ".join(filter(None, [wrong, f"template.body cannot be filled in: {error}"]))
    document = {
        "version": "bai.notification/v1", "id": made.id, "notification": notification.name,
        "cluster": batch.news[0].cluster, "title": made.title, "text": made.text, "severity": made.severity,
        "leftOut": batch.left_out, "news": [news_values(each) for each in batch.news],
    }  # fmt: skip
    return _with_body(made, json.dumps(document | ({"wrong": wrong} if wrong else {}), ensure_ascii=False))


def _slack_body(made: Message) -> str:
    """As incoming webhooks take it; `attachments` give it a colour in Slack, Mattermost and Rocket.Chat."""
    attachment = {
        "color": _SEVERITY_COLOURS[made.severity], "text": made.text, "fallback": made.title,
        "mrkdwn_in": ["text"],
    }  # fmt: skip
    return json.dumps({"text": f"*{made.title}*", "attachments": [attachment]}, ensure_ascii=False)


def _with_body(made: Message, body: str) -> Message:
    data = body.encode(errors="replace")
    return Message(made.id, made.title, made.text, made.severity, made.at, data)


def _escape_slack(text: str) -> str:
    """The three characters that mean something there; nobody is called by `<!channel>` in a file's name."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
