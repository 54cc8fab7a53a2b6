"""How many replicas a service is to have: its document's number, or what the autoscaler holds within the
bounds of the hour. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from planner.model.plan_time import PlanTime
from reconciler.values.services.scaling import ScaleDecision
from schemas.kinds.parts.autoscaling import DAYS, Autoscaling, ScaleSchedule
from schemas.kinds.service import ServiceSpec


def wanted_replicas(spec: ServiceSpec, held: ScaleDecision | None, time: PlanTime) -> tuple[int, str]:
    """The number, and why it is not the document's; empty where it is."""
    rules = spec.autoscaling
    if rules is None:
        return spec.replicas, ""
    least, most, when = bounds_at(rules, time)
    count = held.replicas if held is not None else spec.replicas
    why = f"the autoscaler holds {count}: {held.why}" if held is not None else ""
    bounded = min(max(count, least), most)
    if bounded == count:
        return count, why
    bound = f"at least {least}" if bounded > count else f"at most {most}"
    return bounded, f"{bound}{when}{f', though {why}' if why else ''}"


def bounds_at(rules: Autoscaling, time: PlanTime) -> tuple[int, int, str]:
    """`min`, `max`, and the words for when they hold. `time` expires when they may become others."""
    for each in rules.schedule:
        if _holds(each, time):
            return each.min, each.max, f" from {each.since} to {each.until} ({each.timezone})"
    return rules.min, rules.max, ""


def _holds(schedule: ScaleSchedule, time: PlanTime) -> bool:
    zone = ZoneInfo(schedule.timezone)
    now = datetime.fromtimestamp(time.seconds, UTC).astimezone(zone)
    found = False
    for offset in range(-1, 8):
        day = now.date() + timedelta(days=offset)
        if DAYS[day.weekday()] not in schedule.days:
            continue
        begins = datetime.combine(day, schedule.begins, zone)
        over = schedule.ends <= schedule.begins
        ends = datetime.combine(day + timedelta(days=over), schedule.ends, zone)
        if time.passed(begins.timestamp()) and not time.passed(ends.timestamp()):
            found = True
    return found
