"""News of what lasts, and of what the store tells, since the last time. Pure but for reading the store.

What the store tells has numbers and is told once; what lasts is told when it begins and when it is over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from reconciler.notify.conditions import Sight
from reconciler.notify.news import News, ended, news_of
from reconciler.notify.state import Box, State
from reconciler.notify.throttle import put
from reconciler.store import Store
from reconciler.values.records import Audit, Event, Recorded
from reconciler.values.session_phase import is_batch

AT_ONCE = 2000
"""Newest events that are looked at to find where to begin."""
_FAILING = 1000
_NODES = {"READY": "node-provisioned", "FAILED": "node-failed", "REBOOTING": "node-rebooted"}
_SETTLED = frozenset({"RUNNING", "TERMINATED", "READY", "RECORDED", "CHANGED"})
_ORDERS = {
    "pin": "holds the cluster at commit {commit}", "unpin": "follows the documents again",
    "suspend": "suspended the loop", "resume": "had the loop go on", "approve": "approved of {commit}",
    "disapprove": "took an approval back", "unlock": "broke the lease", "rebuild": "rebuilt the store",
    "restore": "restored the store", "move": "moved the store",
}  # fmt: skip
_FAILURES = frozenset({"ERROR"})


def begun(store: Store, sight: Sight) -> State:
    """Nothing is known yet: what happened before this pass is old."""
    events = [each.seq for each in store.events(sight.cluster, limit=AT_ONCE) if each.at < sight.began]
    audit = [each.seq for each in store.audit(sight.cluster, limit=AT_ONCE) if each.at < sight.began]
    return State(max(events, default=0), max(audit, default=0), sight.commit)


def taken_in(state: State, sight: Sight, store: Store) -> State:
    """With all that is new, in the boxes of those who want it."""
    cluster = sight.cluster
    # All of it, for what is left out here nobody would ever count; the boxes keep what they can hold.
    events = store.events(cluster, after=state.events)
    audit = store.audit(cluster, after=state.audit)
    records = store.recorded(cluster) if any(_ended(event) for event in events) else {}
    lasting, of_pass = _lasting(state, sight)
    failing, failed = _failed(state.failing, events, audit, cluster)
    found = [*_told(events, records, cluster), *failed, *_orders(audit, cluster), *of_pass]
    if sight.commit not in ("", state.commit) and state.commit:
        what = f"commit {sight.commit[:12]} is in force"
        id = f"commit/{sight.commit}/{sight.began:.3f}"
        found.append(news_of("commit-applied", id, cluster, what, sight.at, commit=sight.commit))
    found.sort(key=lambda news: news.at)
    return State(
        events=max([state.events, *(each.seq for each in events)]),
        audit=max([state.audit, *(each.seq for each in audit)]),
        commit=sight.commit or state.commit,
        lasting=lasting,
        failing=failing,
        boxes={
            each.name: put(state.boxes.get(each.name, Box()), each.spec, found)
            for each in sight.notifications
        },
    )


def _lasting(state: State, sight: Sight) -> tuple[Mapping[str, News], list[News]]:
    """What holds now, and news of what began and what is over."""
    now: dict[str, News] = {}
    news = []
    for key, each in sight.lasting.items():
        known = state.lasting.get(key)
        begins = replace(each, id=f"{key}|{each.at:.3f}")
        now[key] = known or begins
        if known is None:
            news.append(begins)
    for key, each in state.lasting.items():
        if key not in now:
            if key.startswith(sight.unknown):
                now[key] = each
            else:
                news.append(ended(each, sight.at))
    return now, news


def _told(events: Iterable[Event], records: Mapping[str, Recorded], cluster: str) -> Iterator[News]:
    for event in events:
        name = _class_of(event, records.get(event.resource))
        if name:
            yield news_of(
                name, f"event/{event.seq}", cluster, event.cause, event.at, resource=event.resource,
                actor=event.actor, commit=event.commit,
            )  # fmt: skip


def _class_of(event: Event, record: Recorded | None) -> str:
    before, after = event.before, event.after
    if event.resource.startswith("Node/"):
        return _NODES.get(after, "")
    if not event.resource.startswith("Session/") or before == after:
        return ""
    if after == "RUNNING":
        return "session-started" if before not in ("RUNNING", "TERMINATING") else ""
    if after == "PENDING":
        return "session-requeued" if before in ("RUNNING", "TERMINATING") else ""
    if after == "CANCELLED":
        return "session-cancelled"
    if _ended(event):
        return "session-failed" if _badly(event, record) else "session-finished"
    return ""


def _ended(event: Event) -> bool:
    return event.resource.startswith("Session/") and event.after in ("TERMINATED", "ERROR")


def _badly(event: Event, record: Recorded | None) -> bool:
    """From the record where it is still of this end, else from what the event says."""
    if event.after in _FAILURES:
        return True
    if record is not None and record.phase == event.after and record.result:
        return record.result == "failure"
    own = record is not None and is_batch(record)
    return " exited with " in event.cause and not event.cause.endswith(" 0") and own


def _failed(
    failing: Mapping[str, str], events: Iterable[Event], audit: Iterable[Audit], cluster: str
) -> tuple[dict[str, str], list[News]]:
    """What failed; the same failure of the same resource again and again only once."""
    now, news = dict(failing), []
    for entry in audit:
        if entry.verb == "failed" and not entry.resource.startswith("Node/"):
            if now.get(entry.resource) != entry.cause:
                id, resource = f"audit/{entry.seq}", entry.resource
                news.append(
                    news_of(
                        "action-failed", id, cluster, entry.cause, entry.at, resource=resource,
                        actor=entry.actor, commit=entry.commit,
                    )
                )  # fmt: skip
            now[entry.resource] = entry.cause
    last = {each.resource: each.at for each in audit if each.verb == "failed"}
    for event in events:
        if event.after in _SETTLED and event.at > last.get(event.resource, 0.0):
            now.pop(event.resource, None)
    return dict(list(now.items())[-_FAILING:]), news


def _orders(audit: Iterable[Audit], cluster: str) -> Iterator[News]:
    for entry in audit:
        words = _ORDERS.get(entry.verb)
        if words is not None:
            actor = entry.actor or "somebody"
            said = words.format(commit=entry.commit[:12])
            why = f": {entry.cause}" if entry.cause else ""
            yield news_of(
                "order-given", f"audit/{entry.seq}", cluster, f"{actor} {said}{why}", entry.at, actor=actor,
                commit=entry.commit,
            )  # fmt: skip
