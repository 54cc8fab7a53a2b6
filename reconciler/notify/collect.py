"""News of what lasts, and of what the store tells, since the last time. Pure but for reading the store.

What the store tells has numbers and is told once; what lasts is told when it begins and when it is over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from reconciler.notify.conditions import ObservedConditions
from reconciler.notify.news import News, completed, resolved
from reconciler.notify.state import NotifyState, Outbox
from reconciler.notify.throttle import enqueue
from reconciler.store.store import Store
from reconciler.values.records import Audit, Event
from schemas.values.resource_ref import ref_of

MAX_SCANNED = 2000
"""Newest events that are looked at to find where to begin."""
_MAX_FAILING = 1000
_NODE_CLASSES = {"READY": "node-provisioned", "FAILED": "node-failed", "REBOOTING": "node-rebooted"}
_SETTLED_PHASES = frozenset({"RUNNING", "TERMINATED", "READY", "RECORDED", "CHANGED"})
_DIRECTIVE_TEXTS = {
    "pin": "holds the cluster at commit {commit}", "unpin": "follows the documents again",
    "suspend": "suspended the loop", "resume": "had the loop go on", "approve": "approved of {commit}",
    "disapprove": "took an approval back", "unlock": "broke the lease", "rebuild": "rebuilt the store",
    "restore": "restored the store", "move": "moved the store",
    "undo-rollout": "took {resource} back", "resume-rollout": "had {resource} go by its document again",
}  # fmt: skip


def initial_state(store: Store, observed: ObservedConditions) -> NotifyState:
    """Nothing is known yet: what happened before this cycle is old."""
    events = [
        each.seq for each in store.events(observed.cluster, limit=MAX_SCANNED) if each.at < observed.began
    ]
    audit = [
        each.seq for each in store.audit(observed.cluster, limit=MAX_SCANNED) if each.at < observed.began
    ]
    return NotifyState(max(events, default=0), max(audit, default=0), observed.commit)


def collect_news(state: NotifyState, observed: ObservedConditions, store: Store) -> NotifyState:
    """With all that is new, in the outboxes of those who want it."""
    cluster = observed.cluster
    # All of it, for what is left out here nobody would ever count; the outboxes keep what they can hold.
    events = store.events(cluster, after=state.events)
    audit = store.audit(cluster, after=state.audit)
    lasting, of_cycle = _track_conditions(state, observed)
    failing, failed = _news_of_failures(state.failing, events, audit, cluster)
    found = [
        *_news_of_events(events, cluster),
        *failed,
        *_news_of_directives(audit, cluster),
        *of_cycle,
    ]
    if observed.commit not in ("", state.commit) and state.commit:
        what = f"commit {observed.commit[:12]} is in force"
        id = f"commit/{observed.commit}/{observed.began:.3f}"
        found.append(
            completed(News(id, "commit-applied", cluster, what, observed.at, commit=observed.commit))
        )
    found.sort(key=lambda news: news.at)
    return NotifyState(
        events=max([state.events, *(each.seq for each in events)]),
        audit=max([state.audit, *(each.seq for each in audit)]),
        commit=observed.commit or state.commit,
        lasting=lasting,
        failing=failing,
        boxes={
            each.name: enqueue(state.boxes.get(each.name, Outbox()), each.spec, found)
            for each in observed.notifications
        },
    )


def _track_conditions(
    state: NotifyState, observed: ObservedConditions
) -> tuple[Mapping[str, News], list[News]]:
    """What holds now, and news of what began and what is over."""
    now: dict[str, News] = {}
    news = []
    for key, each in observed.conditions.items():
        known = state.lasting.get(key)
        begins = replace(each, id=f"{key}|{each.at:.3f}")
        now[key] = known or begins
        if known is None:
            news.append(begins)
    for key, each in state.lasting.items():
        if key not in now:
            if key.startswith(observed.unknown_key_prefixes):
                now[key] = each
            else:
                news.append(resolved(each, observed.at))
    return now, news


def _news_of_events(events: Iterable[Event], cluster: str) -> Iterator[News]:
    for event in events:
        name = _event_class(event)
        if name:
            yield completed(_news_of(event, name, f"event/{event.seq}", cluster))


def _event_class(event: Event) -> str:
    before, after = event.before, event.after
    if ref_of(event.resource).kind == "Node":
        return _NODE_CLASSES.get(after, "")
    if ref_of(event.resource).kind != "Session" or before == after:
        return ""
    if after == "RUNNING":
        return "session-started" if before not in ("RUNNING", "TERMINATING") else ""
    if after == "PENDING":
        return "session-requeued" if before in ("RUNNING", "TERMINATING") else ""
    if after == "CANCELLED":
        return "session-cancelled"
    if after == "ERROR" or (after == "TERMINATED" and event.result == "failure"):
        return "session-failed"
    return "session-finished" if after == "TERMINATED" else ""


def _news_of_failures(
    failing: Mapping[str, str], events: Iterable[Event], audit: Iterable[Audit], cluster: str
) -> tuple[dict[str, str], list[News]]:
    """What failed; the same failure of the same resource again and again only once."""
    now, news = dict(failing), []
    for entry in audit:
        if entry.verb == "failed" and ref_of(entry.resource).kind != "Node":
            if now.get(entry.resource) != entry.cause:
                news.append(completed(_news_of(entry, "action-failed", f"audit/{entry.seq}", cluster)))
            now[entry.resource] = entry.cause
    last = {each.resource: each.at for each in audit if each.verb == "failed"}
    for event in events:
        if event.after in _SETTLED_PHASES and event.at > last.get(event.resource, 0.0):
            now.pop(event.resource, None)
    return dict(list(now.items())[-_MAX_FAILING:]), news


def _news_of_directives(audit: Iterable[Audit], cluster: str) -> Iterator[News]:
    for entry in audit:
        words = _DIRECTIVE_TEXTS.get(entry.verb)
        if words is not None:
            actor = entry.actor or "somebody"
            said = words.format(commit=entry.commit[:12], resource=entry.resource)
            why = f": {entry.cause}" if entry.cause else ""
            order = _news_of(entry, "order-given", f"audit/{entry.seq}", cluster)
            yield completed(replace(order, what=f"{actor} {said}{why}", actor=actor))


def _news_of(entry: Event | Audit, event: str, id: str, cluster: str) -> News:
    """In the words of the store."""
    return News(
        id, event, cluster, entry.cause, entry.at, entry.resource, actor=entry.actor, commit=entry.commit
    )
