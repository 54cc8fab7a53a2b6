"""What goes out when: throttling, digests, tries again, and giving up. Pure: time is an argument.

As many messages go out as the throttle has room for. Is there more news than room, all of it goes into one
message. A message that was begun stays as it is until it is sent or given up, so that one that arrives twice
can be known by its id.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from reconciler.notify.news import News, wanted
from reconciler.notify.state import Batch, Box, Last
from schemas.kinds.notification import NotificationSpec

MOST = 500
"""News that wait for one Notification; what is older than the newest so many is left out, and said."""
FIRST, LONGEST = 5.0, 600.0
"""Seconds until the second try, and most between two."""
_ASKED_FOR = 3600.0
"""Most seconds that a server's wish to be left alone is followed. What is to wait for longer was begun before
the clock was set back."""
GIVEN_UP = 24 * 3600.0
"""Seconds after the first try of a message."""


def put(box: Box, spec: NotificationSpec, found: Iterable[News]) -> Box:
    """What of it this Notification tells of, to be sent."""
    waiting = (*box.waiting, *(news for news in found if wanted(news, spec)))
    over = max(0, len(waiting) - MOST)
    return replace(box, waiting=waiting[over:], left_out=box.left_out + over, lost=box.lost + over)


def begun(box: Box, spec: NotificationSpec, now: float) -> Box:
    """With the message that is to be sent now in `sending`, if there is one."""
    throttle = spec.throttle
    times = tuple(at for at in box.times if now - throttle.every < at <= now)
    box = replace(box, times=times)
    if box.sending is not None or not box.waiting:
        return box
    room = throttle.burst - len(times)
    if room <= 0:
        return box if throttle.digest else _without(box)
    if len(box.waiting) <= room:
        first, rest, left = box.waiting[:1], box.waiting[1:], 0
    elif throttle.digest:
        first, rest, left = box.waiting, (), 0
    else:
        first, rest, left = box.waiting[:1], box.waiting[1:room], len(box.waiting) - room
    batch = Batch(first, box.left_out, now)
    return replace(box, sending=batch, waiting=rest, left_out=left, lost=box.lost + left)


def _without(box: Box) -> Box:
    """No room, and nothing is gathered."""
    many = len(box.waiting)
    return replace(box, waiting=(), left_out=box.left_out + many, lost=box.lost + many)


def due(box: Box, now: float) -> bool:
    """Whether the message that was begun is to be tried."""
    return box.sending is not None and not 0 < box.sending.again - now <= _ASKED_FOR


def next_at(box: Box, spec: NotificationSpec) -> float | None:
    """When there is something to do without more news; None: never."""
    if box.sending is not None:
        return box.sending.again
    if not box.waiting:
        return None
    full = len(box.times) >= spec.throttle.burst
    return box.times[-spec.throttle.burst] + spec.throttle.every if full else 0.0


def sent(box: Box, now: float, said: str, title: str) -> Box:
    """The message arrived."""
    last = Last(now, True, said, title)
    return replace(box, sending=None, times=(*box.times, now), last=last, sent=box.sent + 1)


def failed(box: Box, now: float, said: str, title: str, *, may_pass: bool, wait: float | None = None) -> Box:
    """It did not. Is it to be tried again, then after `wait` seconds if somebody said so."""
    batch = box.sending
    assert batch is not None
    last = Last(now, False, said, title)
    box = replace(box, last=last, failed=box.failed + 1)
    if not may_pass or now - batch.began >= GIVEN_UP:
        lost = len(batch.news)
        return replace(box, sending=None, lost=box.lost + lost, left_out=box.left_out + batch.left_out + lost)
    delay = min(LONGEST, FIRST * 2.0 ** min(batch.tries, 16))
    again = now + max(delay, min(wait or 0.0, _ASKED_FOR))
    return replace(box, sending=replace(batch, tries=batch.tries + 1, again=again))
