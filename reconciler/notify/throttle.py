"""What goes out when: throttling, digests, tries again, and giving up. Pure: time is an argument.

As many messages go out as the throttle has room for. Is there more news than room, all of it goes into one
message. A message that was begun stays as it is until it is sent or given up, so that one that arrives twice
can be known by its id.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from reconciler.notify.news import News, is_wanted
from reconciler.notify.state import Batch, DeliveryResult, Outbox
from schemas.kinds.notification import NotificationSpec

MAX_WAITING = 500
"""News that wait for one Notification; what is older than the newest so many is left out, and said."""
FIRST_RETRY, LONGEST_RETRY = 5.0, 600.0
"""Seconds until the second try, and most between two."""
_MAX_RETRY_AFTER = 3600.0
"""Most seconds that a server's wish to be left alone is followed. What is to wait for longer was begun before
the clock was set back."""
GIVE_UP_AFTER = 24 * 3600.0
"""Seconds after the first try of a message."""


def enqueue(outbox: Outbox, spec: NotificationSpec, found: Iterable[News]) -> Outbox:
    """What of it this Notification tells of, to be sent."""
    waiting = (*outbox.waiting, *(news for news in found if is_wanted(news, spec)))
    over = max(0, len(waiting) - MAX_WAITING)
    return replace(outbox, waiting=waiting[over:], left_out=outbox.left_out + over, lost=outbox.lost + over)


def begin_batch(outbox: Outbox, spec: NotificationSpec, now: float) -> Outbox:
    """With the message that is to be sent now in `sending`, if there is one."""
    throttle = spec.throttle
    times = tuple(at for at in outbox.times if now - throttle.every < at <= now)
    outbox = replace(outbox, times=times)
    if outbox.sending is not None or not outbox.waiting:
        return outbox
    room = throttle.burst - len(times)
    if room <= 0:
        return outbox if throttle.digest else _drop_waiting(outbox)
    if len(outbox.waiting) <= room:
        first, rest, left = outbox.waiting[:1], outbox.waiting[1:], 0
    elif throttle.digest:
        first, rest, left = outbox.waiting, (), 0
    else:
        first, rest, left = outbox.waiting[:1], outbox.waiting[1:room], len(outbox.waiting) - room
    batch = Batch(first, outbox.left_out, now)
    return replace(outbox, sending=batch, waiting=rest, left_out=left, lost=outbox.lost + left)


def _drop_waiting(outbox: Outbox) -> Outbox:
    """No room, and nothing is gathered."""
    many = len(outbox.waiting)
    return replace(outbox, waiting=(), left_out=outbox.left_out + many, lost=outbox.lost + many)


def is_due(outbox: Outbox, now: float) -> bool:
    """Whether the message that was begun is to be tried."""
    return outbox.sending is not None and not 0 < outbox.sending.again - now <= _MAX_RETRY_AFTER


def next_attempt_at(outbox: Outbox, spec: NotificationSpec) -> float | None:
    """When there is something to do without more news; None: never."""
    if outbox.sending is not None:
        return outbox.sending.again
    if not outbox.waiting:
        return None
    full = len(outbox.times) >= spec.throttle.burst
    return outbox.times[-spec.throttle.burst] + spec.throttle.every if full else 0.0


def record_sent(outbox: Outbox, now: float, said: str, title: str) -> Outbox:
    """The message arrived."""
    last = DeliveryResult(now, True, said, title)
    return replace(outbox, sending=None, times=(*outbox.times, now), last=last, sent=outbox.sent + 1)


def record_failure(
    outbox: Outbox, now: float, said: str, title: str, *, retryable: bool, wait: float | None = None
) -> Outbox:
    """It did not. Is it to be tried again, then after `wait` seconds if somebody said so."""
    batch = outbox.sending
    assert batch is not None
    last = DeliveryResult(now, False, said, title)
    outbox = replace(outbox, last=last, failed=outbox.failed + 1)
    if not retryable or now - batch.began >= GIVE_UP_AFTER:
        lost = len(batch.news)
        return replace(
            outbox, sending=None, lost=outbox.lost + lost, left_out=outbox.left_out + batch.left_out + lost
        )
    delay = min(LONGEST_RETRY, FIRST_RETRY * 2.0 ** min(batch.tries, 16))
    again = now + max(delay, min(wait or 0.0, _MAX_RETRY_AFTER))
    return replace(outbox, sending=replace(batch, tries=batch.tries + 1, again=again))
