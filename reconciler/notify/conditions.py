"""What a cycle knows that lasts, taken from it in the loop's thread: small, and asking nobody. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from planner.model.slots import plural
from reconciler.controller.cycle import ReconcileCycle
from reconciler.guards.judge import violation_text
from reconciler.notify.news import News, make_news
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


def observe_conditions(done: ReconcileCycle) -> ObservedConditions:
    """What is to be told of."""
    name = done.cluster
    notifications = notifications_for_cluster(done.repository.of(Notification), name)
    waits = sorted({each.spec.waiting for each in notifications})
    found = (
        [
            *_loop_conditions(done, name),
            *_observed_conditions(done, name),
            *_plan_conditions(done, name, waits),
        ]
        if notifications
        else []
    )
    commit = done.commit if done.plan is not None else ""
    lasting = {each.id: each for each in found}
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


def _loop_conditions(done: ReconcileCycle, cluster: str) -> Iterator[News]:
    for event, what in sorted(done.signs.items()):
        assert event in _LOOP_CLASSES
        yield _condition(event, cluster, "", what, done.ended)


def _observed_conditions(done: ReconcileCycle, cluster: str) -> Iterator[News]:
    actual = done.actual
    if actual is None:
        return
    if not actual.complete:
        what = "; ".join(actual.errors) or "not everything answered"
        yield _condition("cluster-unseen", cluster, "", what, done.ended, key="")
    yield from _node_conditions(actual, cluster, done.ended)


def _node_conditions(actual: Actual, cluster: str, at: float) -> Iterator[News]:
    for name, missed in sorted(actual.missed.items()):
        yield _condition(
            "node-lost", cluster, identity_of("Node", name), f"no contact: {missed.why}", at, key=""
        )
    for name, health in sorted(actual.health.items()):
        for finding in health.findings:
            grave = _SEVERITIES.get(finding.severity)
            if grave is not None:
                about = f"{finding.device}: " if finding.device else ""
                what = f"{about}{finding.what} ({finding.code})" + (
                    f"; {finding.hint}" if finding.hint else ""
                )
                key = f"{finding.code} {finding.device}"
                yield _condition(
                    "node-health", cluster, identity_of("Node", name), what, at, key=key, severity=grave
                )


def _plan_conditions(done: ReconcileCycle, cluster: str, waits: Iterable[int]) -> Iterator[News]:
    plan = done.plan
    if plan is None:
        return
    for drift in plan.drifts:
        yield _condition("drift", cluster, drift.resource, drift.what, done.ended)
    for one in done.violations:
        about = one.resources[0] if len(one.resources) == 1 else ""
        yield _condition("policy-violated", cluster, about, violation_text(one), done.ended)
    yield from _quota_conditions(plan, cluster, done.ended)
    if done.actual is not None:
        yield from _waiting_conditions(plan, done.actual, cluster, done.ended, waits)


def _quota_conditions(plan: Plan, cluster: str, at: float) -> Iterator[News]:
    for use in plan.quotas:
        for slot, limit in sorted(use.limit.items()):
            if 0 < limit <= use.after.get(slot, 0):
                kind, _, name = use.subject.replace(" ", "/").partition("/")
                project = name if kind.lower() == "project" else ""
                what = f"{use.subject} uses all of its {slot}"
                resource = use.quota if "/" in use.quota else identity_of("Quota", use.quota)
                yield _condition("quota-reached", cluster, resource, what, at, key=slot, project=project)


def _waiting_conditions(
    plan: Plan, actual: Actual, cluster: str, at: float, thresholds: Iterable[int]
) -> Iterator[News]:
    for wait in plan.waits:
        there = actual.existing.get(wait.session)
        since = there.recorded.enqueued_at if there is not None else None
        for threshold in thresholds if since is not None else ():
            if since is not None and at - since >= threshold:
                why = "; ".join(reason.message for reason in wait.reasons[:3])
                more = plural(len(wait.reasons) - 3, "more reason") if len(wait.reasons) > 3 else ""
                what = f"waits for {format_duration(threshold)} or longer in {wait.group}: {why}"
                yield _condition(
                    "session-waiting", cluster, wait.session, f"{what}; {more}" if more else what, at,
                    key=f"{threshold} {since:.3f}", waiting=threshold,
                )  # fmt: skip


def _condition(
    event: str, cluster: str, resource: str, what: str, at: float, *, key: str | None = None,
    severity: Severity | None = None, project: str = "", waiting: int = 0,
) -> News:  # fmt: skip
    """Its id is its key: which of two that look alike it is, `key` says, else its words."""
    id = f"{event}|{resource}|{what if key is None else key}"
    return make_news(
        event, id, cluster, what, at, resource=resource, project=project, severity=severity, waiting=waiting
    )  # fmt: skip
