"""What a cycle knows that lasts, taken from it in the loop's thread: small, and asking nobody. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from planner.model.slots import plural
from reconciler.controller.cycle import ReconcileCycle
from reconciler.guards.judge import violation_text
from reconciler.notify.news import News, completed
from reconciler.values.plan import Plan
from reconciler.values.state import Actual
from reconciler.values.times import format_duration
from schemas.kinds.notification import Notification, Severity
from schemas.values.resource_ref import identity_of

_OBSERVED_CLASSES = ("node-lost",)
_PLAN_CLASSES = ("drift", "policy-violated", "quota-reached", "session-waiting")
_LOOP_CLASSES = ("documents-refused", "documents-unreachable", "approval-needed", "loop-failed")
_SEVERITIES: Mapping[str, Severity] = {"critical": "error", "warning": "warning"}


@dataclass(frozen=True, slots=True)
class ObservedConditions:
    """Of one cycle. `conditions`: by key, what holds now; keys that begin with one of `unknown_key_prefixes`
    were not looked at, and what held of them is taken to hold still."""

    cluster: str
    began: float
    at: float
    commit: str
    notifications: tuple[Notification, ...]
    conditions: Mapping[str, News]
    unknown_key_prefixes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Condition:
    """Something that holds, as a part of a cycle shows it; `observe_conditions` makes News of it."""

    event: str
    """A class of events."""
    resource: str
    what: str
    key: str | None = None
    """Which of two that look alike it is; None: its words say it."""
    severity: Severity | None = None
    """None: that of its class."""
    project: str = ""
    """Empty: that of its resource."""
    waiting: int = 0
    """See `News`."""


def observe_conditions(done: ReconcileCycle) -> ObservedConditions:
    """What is to be told of."""
    name = done.cluster
    notifications = notifications_for_cluster(done.repository.of(Notification), name)
    waits = sorted({each.spec.waiting for each in notifications})
    found = (
        [*_loop_conditions(done), *_observed_conditions(done), *_plan_conditions(done, waits)]
        if notifications
        else []
    )
    commit = done.commit if done.plan is not None else ""
    lasting = {news.id: news for news in (_news_of(each, name, done.ended) for each in found)}
    return ObservedConditions(
        name,
        done.began,
        done.ended,
        commit,
        notifications,
        lasting,
        tuple(_unknown_key_prefixes(done)) if notifications else (),
    )


def notifications_for_cluster(found: Iterable[Notification], cluster: str) -> tuple[Notification, ...]:
    """Those that concern a cluster, by name."""
    mine = (each for each in found if each.spec.cluster in (None, cluster))
    return tuple(sorted(mine, key=lambda each: each.name))


def _unknown_key_prefixes(done: ReconcileCycle) -> Iterator[str]:
    actual, plan = done.actual, done.plan
    if actual is None or not actual.complete:
        yield from _OBSERVED_CLASSES
    if actual is None:
        yield "cluster-unseen"
    if actual is None or plan is None or done.desired is None:
        yield "node-health"
    else:
        answers = {name for name, health in actual.health.items() if not health.problem}
        known = {node.name for node in done.desired.nodes}
        yield from (f"node-health|Node/{name}|" for name in sorted(known - answers))
    if plan is None or not plan.complete:
        yield from _PLAN_CLASSES


def _loop_conditions(done: ReconcileCycle) -> Iterator[Condition]:
    for event, what in sorted(done.signs.items()):
        assert event in _LOOP_CLASSES
        yield Condition(event, "", what)


def _observed_conditions(done: ReconcileCycle) -> Iterator[Condition]:
    actual = done.actual
    if actual is None:
        return
    if not actual.complete:
        what = "; ".join(actual.errors) or "not everything answered"
        yield Condition("cluster-unseen", "", what, key="")
    yield from _node_conditions(actual)


def _node_conditions(actual: Actual) -> Iterator[Condition]:
    for name, missed in sorted(actual.missed.items()):
        yield Condition("node-lost", identity_of("Node", name), f"no contact: {missed.why}", key="")
    for name, health in sorted(actual.health.items()):
        for finding in health.findings:
            grave = _SEVERITIES.get(finding.severity)
            if grave is not None:
                about = f"{finding.device}: " if finding.device else ""
                what = f"{about}{finding.what} ({finding.code})" + (
                    f"; {finding.hint}" if finding.hint else ""
                )
                key = f"{finding.code} {finding.device}"
                yield Condition("node-health", identity_of("Node", name), what, key=key, severity=grave)


def _plan_conditions(done: ReconcileCycle, waits: Iterable[int]) -> Iterator[Condition]:
    plan = done.plan
    if plan is None:
        return
    for drift in plan.drifts:
        yield Condition("drift", drift.resource, drift.what)
    for one in done.violations:
        about = one.resources[0] if len(one.resources) == 1 else ""
        yield Condition("policy-violated", about, violation_text(one))
    yield from _quota_conditions(plan)
    if done.actual is not None:
        yield from _waiting_conditions(plan, done.actual, done.ended, waits)


def _quota_conditions(plan: Plan) -> Iterator[Condition]:
    for use in plan.quotas:
        for slot, limit in sorted(use.limit.items()):
            if 0 < limit <= use.after.get(slot, 0):
                kind, _, name = use.subject.replace(" ", "/").partition("/")
                project = name if kind.lower() == "project" else ""
                what = f"{use.subject} uses all of its {slot}"
                resource = use.quota if "/" in use.quota else identity_of("Quota", use.quota)
                yield Condition("quota-reached", resource, what, key=slot, project=project)


def _waiting_conditions(
    plan: Plan, actual: Actual, at: float, thresholds: Iterable[int]
) -> Iterator[Condition]:
    for wait in plan.waits:
        there = None if wait.is_held else actual.existing.get(wait.session)
        since = there.recorded.enqueued_at if there is not None else None
        for threshold in thresholds if since is not None else ():
            if since is not None and at - since >= threshold:
                why = "; ".join(reason.message for reason in wait.reasons[:3])
                more = plural(len(wait.reasons) - 3, "more reason") if len(wait.reasons) > 3 else ""
                what = f"waits for {format_duration(threshold)} or longer in {wait.group}: {why}"
                yield Condition(
                    "session-waiting", wait.session, f"{what}; {more}" if more else what,
                    key=f"{threshold} {since:.3f}", waiting=threshold,
                )  # fmt: skip


def _news_of(condition: Condition, cluster: str, at: float) -> News:
    """Its id says which condition it is, however often it is seen."""
    key = condition.what if condition.key is None else condition.key
    id = f"{condition.event}|{condition.resource}|{key}"
    news = completed(
        News(
            id, condition.event, cluster, condition.what, at, condition.resource, condition.project,
            waiting=condition.waiting,
        )
    )  # fmt: skip
    return news if condition.severity is None else replace(news, severity=condition.severity)
