"""Whether the clocks that a store was written by can be right. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from reconciler.values.times import format_duration, format_time
from schemas.values.once_per_value import once_per_value

if TYPE_CHECKING:
    from reconciler.values.state import Actual, Existing

EARLIEST_CREDIBLE = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
"""No clock that is right says less."""
TOLERATED_SKEW = 300.0
"""Seconds by which clocks of machines may differ without a word."""


def clock_doubts(actual: Actual, now: float) -> tuple[str, ...]:
    """Warnings about this machine's clock and about times in the store that have not come yet."""
    if now < EARLIEST_CREDIBLE:
        return (
            f"this machine's clock says {format_time(now)}, which is before this bai was made: set it; until"
            " then nothing is idle, too late or lost for long",
        )
    at, what = max(_recorded_times(actual), default=(now, ""))
    if at - now <= TOLERATED_SKEW:
        return ()
    return (
        f"the store has a time of {format_time(at)} ({what}), {format_duration(at - now)} ahead of this"
        " machine's clock: one of the two was wrong. It counts as no time at all; where this clock is right,"
        " `bai state rebuild` sets such times to now",
    )


@once_per_value
def _latest_time(existing: Existing) -> float | None:
    record = existing.recorded
    times = (record.enqueued_at, record.started_at, record.finished_at)
    return max((at for at in times if at is not None), default=None)


def _recorded_times(actual: Actual) -> Iterator[tuple[float, str]]:
    for each in actual.existing.values():
        at = _latest_time(each)
        if at is not None:
            yield at, each.id
    for user, balance in actual.balances.items():
        yield balance.at, f"what {user} used"
    for node, contact in actual.contacts.items():
        for at in (contact.reached, contact.lost):
            if at is not None:
                yield at, f"contact with {node}"
    for node, provisioned in actual.provision_records.items():
        yield provisioned.at, f"provisioning of {node}"
    for kernel, samples in actual.samples.items():
        if samples:
            yield samples[-1].at, f"use of {kernel}"
