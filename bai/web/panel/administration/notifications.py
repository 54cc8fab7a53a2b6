"""Who is told what: each Notification with what it tells, to whom, and what became of it. For who sees
everything."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bai.queries.facts.notifications import notification_boxes, waiting_count
from bai.render.humanize import clean, duration, iso_time, plural
from schemas.kinds.notification import CLASSES

if TYPE_CHECKING:
    from bai.web.pass_view import PassView
    from reconciler.notify.news import News
    from reconciler.notify.state import Outbox
    from schemas.kinds.notification import Notification, NotificationTarget

MOST_WAITING = 5
_ADDRESS = re.compile(r"\b([a-z][a-z0-9+.-]*://)([^\s/?#@]*@)?([^\s/?#]*)([^\s\"'<>]*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ToldEvent:
    """A class of events, and when it comes."""

    name: str
    severity: str
    when: str


@dataclass(frozen=True, slots=True)
class WaitingNews:
    """Something that is to be told yet; `at` as ISO 8601."""

    at: str
    event: str
    resource: str
    what: str


@dataclass(frozen=True, slots=True)
class NotificationRow:
    """One notification. `to`: whom it tells, in words, never with a secret; `rules`: of what, and how often;
    `sent` and `failed` count messages, `lost` and `waiting` news; `last` in words, `last_good`: whether it
    went well, `last_title`: what it was about; `latest` (ISO 8601): when a message that failed is tried
    again, after `tries`."""

    name: str
    kind: str
    to: tuple[str, ...]
    events: tuple[ToldEvent, ...]
    rules: tuple[str, ...]
    sent: int
    failed: int
    lost: int
    waiting: int
    at: str
    last: str
    last_title: str
    last_good: bool
    tries: int
    latest: str
    news: tuple[WaitingNews, ...]


def notification_rows(view: PassView) -> tuple[NotificationRow, ...]:
    """Those of the cluster, by name. Raises StoreError."""
    found = notification_boxes(view.repository, view.store, view.cluster)
    return tuple(_row(each, box) for each, box in found if view.sees(each.identity))


def without_secrets(text: str) -> str:
    """A text whose addresses end with the host: what comes after it, or before it, may be a secret."""
    return clean(_ADDRESS.sub(lambda found: f"{found[1]}{found[3]}{'/…' if found[4] else ''}", text))


def _row(each: Notification, box: Outbox) -> NotificationRow:
    last, sending = box.last, box.sending
    news = (*(sending.news if sending else ()), *box.waiting)
    return NotificationRow(
        name=each.name,
        kind=each.spec.to.kind,
        to=tuple(map(clean, _target(each.spec.to))),
        events=tuple(ToldEvent(name, *_about(name)) for name in each.spec.events),
        rules=tuple(map(clean, _rules(each))),
        sent=box.sent,
        failed=box.failed,
        lost=box.lost,
        waiting=waiting_count(box),
        at=iso_time(last.at) if last else "",
        last=without_secrets(last.said) if last else "",
        last_title=without_secrets(last.title) if last else "",
        last_good=last is None or last.good,
        tries=sending.tries if sending else 0,
        latest=iso_time(sending.again) if sending and sending.tries else "",
        news=tuple(map(_waiting, news[:MOST_WAITING])),
    )


def _about(name: str) -> tuple[str, str]:
    found = CLASSES.get(name)
    return (found.severity, found.when) if found else ("info", "Everything that there is to tell.")


def _waiting(news: News) -> WaitingNews:
    return WaitingNews(iso_time(news.at), news.event, news.resource, without_secrets(news.what))


def _target(to: NotificationTarget) -> Iterator[str]:
    """Where it goes. Secrets are named by where they are."""
    if to.slack is not None:
        yield f"a webhook, whose address is in {to.slack.url_from}"
    if to.http is not None:
        yield f"{to.http.method} to an address that is in {to.http.url_from}"
        if to.http.headers_from:
            yield f"with headers {', '.join(sorted(to.http.headers_from))}"
        if to.http.signature_from:
            yield "signed"
    if to.email is not None:
        port = f":{to.email.port}" if to.email.port else ""
        yield f"mail to {', '.join(to.email.to)}"
        yield f"from {to.email.from_}, by {to.email.server}{port} ({to.email.tls})"


def _rules(each: Notification) -> Iterator[str]:
    spec, throttle = each.spec, each.spec.throttle
    if spec.projects:
        yield f"only of {', '.join(spec.projects)}"
    if not spec.over:
        yield "not when it is over"
    if "session-waiting" in spec.events or "all" in spec.events:
        yield f"of waiting after {duration(spec.waiting)}"
    more = "more goes together into one" if throttle.digest else "more is only counted"
    yield f"at most {plural(throttle.burst, 'message')} in {duration(throttle.every)}, {more}"
    if spec.template != type(spec.template)():
        yield "in words of its own"
