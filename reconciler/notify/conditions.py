"""What a pass knows that lasts, taken from it in the loop's thread: small, and asking nobody. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from planner.model.slots import plural
from reconciler.controller.cycle import Pass
from reconciler.guards.judge import said
from reconciler.notify.news import News, news_of
from reconciler.values.plan import Plan
from reconciler.values.state import Actual
from reconciler.values.times import span
from schemas.kinds.notification import Notification, Severity

_SEEN = ("node-lost",)
_PLANNED = ("drift", "policy-violated", "quota-reached", "session-waiting")
_SAID = ("documents-refused", "documents-unreachable", "approval-needed", "loop-failed")
_GRAVE: Mapping[str, Severity] = {"critical": "error", "warning": "warning"}


@dataclass(frozen=True, slots=True)
class Sight:
    """One pass. `lasting`: by key, what holds now; keys that begin with one of `unknown` were not looked at,
    and what held of them is taken to hold still."""

    cluster: str
    began: float
    at: float
    commit: str
    notifications: tuple[Notification, ...]
    lasting: Mapping[str, News]
    unknown: tuple[str, ...] = ()


def sight_of(done: Pass) -> Sight:
    """What is to be told of."""
    workspace = done.workspace
    name = workspace.cluster.name
    notifications = notifications_of(workspace.repository.of(Notification), name)
    waits = sorted({each.spec.waiting for each in notifications})
    found = [*_said(done, name), *_seen(done, name), *_planned(done, name, waits)] if notifications else []
    commit = workspace.commit if done.plan is not None else ""
    lasting = {each.id: each for each in found}
    return Sight(
        name,
        done.began,
        done.ended,
        commit,
        notifications,
        lasting,
        tuple(_unknown(done)) if notifications else (),
    )


def notifications_of(found: Iterable[Notification], cluster: str) -> tuple[Notification, ...]:
    """Those that concern a cluster, by name."""
    mine = (each for each in found if each.spec.cluster in (None, cluster))
    return tuple(sorted(mine, key=lambda each: each.name))


def _unknown(done: Pass) -> Iterator[str]:
    actual, plan = done.actual, done.plan
    if actual is None or not actual.complete:
        yield from _SEEN
    if actual is None:
        yield "cluster-unseen"
    if actual is None or plan is None:
        yield "node-health"
    else:
        answers = {name for name, health in actual.health.items() if not health.problem}
        known = {node.name for node in done.workspace.desired().nodes}
        yield from (f"node-health|Node/{name}|" for name in sorted(known - answers))
    if plan is None or not plan.complete:
        yield from _PLANNED


def _said(done: Pass, cluster: str) -> Iterator[News]:
    for event, what in sorted(done.signs.items()):
        assert event in _SAID
        yield _lasting(event, cluster, "", what, done.ended)


def _seen(done: Pass, cluster: str) -> Iterator[News]:
    actual = done.actual
    if actual is None:
        return
    if not actual.complete:
        what = "; ".join(actual.errors) or "not everything answered"
        yield _lasting("cluster-unseen", cluster, "", what, done.ended, key="")
    yield from _nodes(actual, cluster, done.ended)


def _nodes(actual: Actual, cluster: str, at: float) -> Iterator[News]:
    for name, missed in sorted(actual.missed.items()):
        yield _lasting("node-lost", cluster, f"Node/{name}", f"no contact: {missed.why}", at, key="")
    for name, health in sorted(actual.health.items()):
        for finding in health.findings:
            grave = _GRAVE.get(finding.severity)
            if grave is not None:
                about = f"{finding.device}: " if finding.device else ""
                what = f"{about}{finding.what} ({finding.code})" + (
                    f"; {finding.hint}" if finding.hint else ""
                )
                key = f"{finding.code} {finding.device}"
                yield _lasting("node-health", cluster, f"Node/{name}", what, at, key=key, severity=grave)


def _planned(done: Pass, cluster: str, waits: Iterable[int]) -> Iterator[News]:
    plan = done.plan
    if plan is None:
        return
    for drift in plan.drifts:
        yield _lasting("drift", cluster, drift.resource, drift.what, done.ended)
    for one in done.violations:
        about = one.resources[0] if len(one.resources) == 1 else ""
        yield _lasting("policy-violated", cluster, about, said(one), done.ended)
    yield from _quotas(plan, cluster, done.ended)
    if done.actual is not None:
        yield from _waits(plan, done.actual, cluster, done.ended, waits)


def _quotas(plan: Plan, cluster: str, at: float) -> Iterator[News]:
    for use in plan.quotas:
        for slot, limit in sorted(use.limit.items()):
            if 0 < limit <= use.after.get(slot, 0):
                kind, _, name = use.subject.replace(" ", "/").partition("/")
                project = name if kind.lower() == "project" else ""
                what = f"{use.subject} uses all of its {slot}"
                resource = use.quota if "/" in use.quota else f"Quota/{use.quota}"
                yield _lasting("quota-reached", cluster, resource, what, at, key=slot, project=project)


def _waits(plan: Plan, actual: Actual, cluster: str, at: float, thresholds: Iterable[int]) -> Iterator[News]:
    for wait in plan.waits:
        there = actual.existing.get(wait.session)
        since = there.recorded.enqueued_at if there is not None else None
        for threshold in thresholds if since is not None else ():
            if since is not None and at - since >= threshold:
                why = "; ".join(reason.message for reason in wait.reasons[:3])
                more = plural(len(wait.reasons) - 3, "more reason") if len(wait.reasons) > 3 else ""
                what = f"waits for {span(threshold)} or longer in {wait.group}: {why}"
                yield _lasting(
                    "session-waiting", cluster, wait.session, f"{what}; {more}" if more else what, at,
                    key=f"{threshold} {since:.3f}", waiting=threshold,
                )  # fmt: skip


def _lasting(
    event: str, cluster: str, resource: str, what: str, at: float, *, key: str | None = None,
    severity: Severity | None = None, project: str = "", waiting: int = 0,
) -> News:  # fmt: skip
    """Its id is its key: which of two that look alike it is, `key` says, else its words."""
    id = f"{event}|{resource}|{what if key is None else key}"
    return news_of(
        event, id, cluster, what, at, resource=resource, project=project, severity=severity, waiting=waiting
    )  # fmt: skip
