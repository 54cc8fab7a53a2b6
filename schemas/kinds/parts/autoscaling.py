"""Autoscaling: how many replicas a service has, by what is asked of it and by the clock."""

from __future__ import annotations

import re
from datetime import time
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, Field, WithJsonSchema, model_validator

from schemas.problems.issues import Issue, issues_error, value_error
from schemas.problems.text import format_value
from schemas.values.envelope import Count, Model, Positive
from schemas.values.names import NO_CONTROL_PATTERN, Text
from schemas.values.quantities import Duration, Percent

MOST_REPLICAS = 1000
Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
DAYS: tuple[Day, ...] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_CLOCK_PATTERN = r"^([01][0-9]|2[0-3]):[0-5][0-9]$"
_ZONE_PATTERN = r"^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$"
"""What an editor can tell; which zones there are, the system knows."""
_CLOCK = re.compile(_CLOCK_PATTERN.removesuffix("$") + r"\Z")


def _clock(value: str) -> str:
    if not _CLOCK.match(value):
        raise value_error(f"{format_value(value)} is no time of day", "such as 08:00 or 17:30")
    return value


def _zone(value: str) -> str:
    try:
        ZoneInfo(value)
    except (ValueError, OSError, KeyError):
        raise value_error(f"{format_value(value)} is no time zone", "such as UTC or Europe/Berlin") from None
    return value


Clock = Annotated[str, AfterValidator(_clock), WithJsonSchema({"type": "string", "pattern": _CLOCK_PATTERN})]
Zone = Annotated[Text, AfterValidator(_zone), WithJsonSchema({"type": "string", "pattern": _ZONE_PATTERN})]
_LONGEST_QUERY = 4096
Query = Annotated[
    Text,
    Field(min_length=1, max_length=_LONGEST_QUERY),
    WithJsonSchema(
        {"type": "string", "pattern": NO_CONTROL_PATTERN, "minLength": 1, "maxLength": _LONGEST_QUERY}
    ),
]


class LatencyTarget(Model):
    """So long requests may take until the first byte of their answer."""

    percentile: Annotated[Positive, Field(le=99)] = 95
    below: Duration
    """Whole seconds."""


class PrometheusTarget(Model):
    """A number that the server's Prometheus (`bai serve --prometheus`) knows."""

    query: Query
    """PromQL, with one value as its answer: of the whole service, not of each replica."""
    target: Positive
    """So much of it one replica can do."""


class ScaleUp(Model):
    """When there are more."""

    window: Annotated[Duration, Field(le=3600)] = 0
    """Of all numbers that were found right in so long a time, the lowest counts."""


class ScaleDown(Model):
    """When there are fewer."""

    window: Annotated[Duration, Field(le=3600)] = 300
    """Of all numbers that were found right in so long a time, the highest counts."""


class ScaleSchedule(Model):
    """Other bounds at certain times of the week. `until` before `since` is on the next day."""

    days: Annotated[tuple[Day, ...], Field(min_length=1)] = DAYS
    since: Clock = "00:00"
    until: Clock = "00:00"
    """Exclusive; 00:00 is the end of the day."""
    timezone: Zone = "UTC"
    min: Count
    max: Annotated[Positive, Field(le=MOST_REPLICAS)]

    @property
    def begins(self) -> time:
        return time.fromisoformat(self.since)

    @property
    def ends(self) -> time:
        return time.fromisoformat(self.until)


class Autoscaling(Model):
    """How many replicas there are: by what one replica can do of each measure that is named here, as many as
    the one needs that needs the most; never fewer than `min` or more than `max`."""

    min: Count = 1
    """0: without requests for `down.window` no replica is left, and the first request waits for one."""
    max: Annotated[Positive, Field(le=MOST_REPLICAS)]
    in_flight: Positive | None = None
    """Requests (connections) at a time, of one replica."""
    requests_per_second: Positive | None = None
    latency: LatencyTarget | None = None
    """Of ports with protocol `http` alone."""
    gpu_utilization: Annotated[Percent, Field(ge=1, le=100)] | None = None
    """Of its GPUs, on average over replicas."""
    prometheus: PrometheusTarget | None = None
    up: ScaleUp = ScaleUp()
    down: ScaleDown = ScaleDown()
    hold: Annotated[Duration, Field(le=3600)] = 300
    """So long a request may wait for the first replica, where there is none."""
    schedule: tuple[ScaleSchedule, ...] = ()
    """The first that holds at the time counts; `min` and `max` above where none does."""

    @model_validator(mode="before")
    @classmethod
    def _bounds(cls, value: Any) -> Any:
        if isinstance(value, dict):
            for at, each in [((), value), *_schedules(value)]:
                least, most = each.get("min", 1 if not at else None), each.get("max")
                if isinstance(least, int) and isinstance(most, int) and least > most:
                    message = f"min {least} is more than max {most}"
                    raise issues_error([Issue((*at, "min"), message)])
        return value


def _schedules(value: dict[str, Any]) -> list[tuple[tuple[str | int, ...], dict[str, Any]]]:
    found = value.get("schedule")
    listed = found if isinstance(found, list | tuple) else ()
    return [(("schedule", i), each) for i, each in enumerate(listed) if isinstance(each, dict)]
