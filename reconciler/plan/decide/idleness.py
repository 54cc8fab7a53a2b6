"""Since when a session has done next to nothing, from samples of what its kernels used. Pure.

The time between two samples is quiet when what was used in it is below the rule's threshold. A session is
idle since the latest moment at which one of its kernels was not quiet, or ended. Where samples are missing or
too far apart nothing is known, and what is not known counts as busy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from planner.model.plan_time import PlanTime
from planner.model.types import KernelPlacement
from providers.base import Observed
from reconciler.values.changes.cause import Cause, CauseCode
from reconciler.values.documents.idle_rules import SAMPLE_GAP, IdleRule, idle_rules
from reconciler.values.records import Sample
from reconciler.values.session_phase import LIVE
from reconciler.values.state import Actual, Desired, Existing
from reconciler.values.times import format_time
from schemas.kinds.session import IdleMetric, Session

QUIET_NETWORK = 1024.0
"""Bytes a second that keep nothing alive but the connection itself."""
FRESH = 60.0
"""Most seconds since the last sample: whoever began to work meanwhile is not stopped."""


@dataclass(frozen=True, slots=True)
class QuietSpell:
    """That something was quiet since a moment, with the mean of what it used (percent, or bytes a second)."""

    since: float
    mean: float


def idle_cause(
    session: Session, existing: Existing, actual: Actual, desired: Desired, time: PlanTime
) -> Cause | None:
    """Why an unused session is stopped: `idle since 14:02 UTC (gpu-utilization 0.3 % < 5 %)`; None when it
    is not."""
    for rule in idle_rules(session, desired):
        quiet = _session_quiet(rule, existing, actual.samples, time)
        if quiet is not None and _last_sampled(existing, actual.samples) - quiet.since >= rule.after:
            return Cause(CauseCode.IDLE, _idle_text(rule, quiet, time))
    return None


def _session_quiet(
    rule: IdleRule, existing: Existing, samples: Mapping[str, Sequence[Sample]], time: PlanTime
) -> QuietSpell | None:
    """Since when all its kernels are quiet; None when one is not, or when it is not known."""
    started = existing.recorded.started_at
    placement = existing.recorded.placement
    if started is None or placement is None or not existing.kernels:
        return None
    parts = {part.kernel: part for part in placement.kernels}
    found = []
    for kernel in _live_kernels(existing):
        part = parts.get(kernel.labels.kernel)
        if part is None:
            return None
        if rule.metric == "gpu-utilization" and not part.devices:
            continue
        quiet = quiet_since(rule, samples.get(kernel.id, ()), part, time)
        if quiet is None:
            return None
        found.append(quiet)
    if not found:
        return None
    since = max(started + rule.grace, *_end_times(existing, samples), *(quiet.since for quiet in found))
    return QuietSpell(since, max(quiet.mean for quiet in found))


def _end_times(existing: Existing, samples: Mapping[str, Sequence[Sample]]) -> Iterator[float]:
    """When its other kernels ended: nobody knows how busy they were until then, and those that are left may
    have waited for them."""
    for kernel in existing.kernels:
        if kernel.state not in LIVE:
            if kernel.finished is not None:
                yield kernel.finished.timestamp()
            elif samples.get(kernel.id):
                yield samples[kernel.id][-1].at


def _live_kernels(existing: Existing) -> list[Observed]:
    return [kernel for kernel in existing.kernels if kernel.state in LIVE]


def quiet_since(
    rule: IdleRule, samples: Sequence[Sample], part: KernelPlacement, time: PlanTime
) -> QuietSpell | None:
    """Since when one kernel is quiet up to now; None when it is not, or when it is not known."""
    reach = max(SAMPLE_GAP, rule.after / 4)
    if len(samples) < 2 or not _is_fresh(samples[-1], time):
        return None
    widest = reach if rule.metric == "gpu-utilization" else max(reach, rule.after)
    since, used = None, 0.0
    for one, next_ in reversed(list(pairwise(samples))):
        span = next_.at - one.at
        value = _use_between(rule.metric, one, next_, part)
        if value is None or span <= 0 or span > widest or value >= _threshold(rule):
            break
        since, used = one.at, used + value * span
    return None if since is None else QuietSpell(since, used / (samples[-1].at - since))


def _is_fresh(last: Sample, time: PlanTime) -> bool:
    return time.passed(last.at - FRESH) and not time.after(last.at + FRESH)


def _use_between(metric: IdleMetric, one: Sample, next_: Sample, part: KernelPlacement) -> float | None:
    """What was used between two samples; None when not known, or when a counter began anew."""
    span = next_.at - one.at
    if metric == "gpu-utilization":
        return next_.gpu
    before, after = (one.cpu, next_.cpu) if metric == "cpu-utilization" else (one.network, next_.network)
    if before is None or after is None or after < before or span <= 0:
        return None
    rate = (after - before) / span
    return rate if metric == "network" else 100.0 * rate / max(part.cpu_milli / 1000, 0.001)


def _threshold(rule: IdleRule) -> float:
    return QUIET_NETWORK if rule.metric == "network" else rule.below


def _last_sampled(existing: Existing, samples: Mapping[str, Sequence[Sample]]) -> float:
    """The last moment at which something is known of all its kernels."""
    known = [samples[kernel.id][-1].at for kernel in _live_kernels(existing) if samples.get(kernel.id)]
    return min(known, default=0.0)


def _idle_text(rule: IdleRule, quiet: QuietSpell, time: PlanTime) -> str:
    unit = "B/s" if rule.metric == "network" else "%"
    by = f", quota {rule.source}" if rule.source else ""
    measured = f"{rule.metric} {quiet.mean:.1f} {unit} < {_threshold(rule):g} {unit}"
    return f"idle since {format_time(quiet.since, time.to_the_day())} ({measured}{by})"
