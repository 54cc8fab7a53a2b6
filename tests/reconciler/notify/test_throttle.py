"""What goes out when: never more than the throttle allows, nothing lost without being counted."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.notify import throttle
from reconciler.notify.state import Outbox
from schemas.kinds.notification import NotificationSpec
from tests.reconciler.notify.support import news, notification

STEADY = settings(deadline=None, derandomize=True, database=None)


def spec(**throttle: object) -> NotificationSpec:
    return notification(throttle=throttle).spec


def run(box: Outbox, how: NotificationSpec, now: float) -> tuple[Outbox, list[int]]:
    """Send what goes now; the sizes of the messages."""
    sizes: list[int] = []
    while True:
        box = throttle.begin_batch(box, how, now)
        if not throttle.is_due(box, now):
            return box, sizes
        assert box.sending is not None
        sizes.append(len(box.sending.news))
        box = throttle.record_sent(box, now, "ok", "t")


def test_few_go_out_one_by_one_and_many_in_one_message() -> None:
    how = spec(every="5m", burst=3)
    box, sizes = run(throttle.enqueue(Outbox(), how, [news(n) for n in range(2)]), how, 0)
    assert sizes == [1, 1]
    box, sizes = run(throttle.enqueue(box, how, [news(n) for n in range(40)]), how, 1)
    assert sizes == [40]
    box, sizes = run(throttle.enqueue(box, how, [news(n) for n in range(7)]), how, 2)
    assert sizes == [] and throttle.next_attempt_at(box, how) == 300
    box, sizes = run(box, how, 299)
    assert sizes == []
    box, sizes = run(box, how, 300)
    assert sizes == [7] or sum(sizes) == 7
    assert box.lost == 0 and throttle.next_attempt_at(box, how) is None


def test_without_digest_what_is_more_is_counted_and_said() -> None:
    how = spec(every="1m", burst=2, digest=False)
    box, sizes = run(throttle.enqueue(Outbox(), how, [news(n) for n in range(5)]), how, 0)
    assert sizes == [1, 1] and box.lost == 3
    box, sizes = run(throttle.enqueue(box, how, [news(9)]), how, 30)
    assert sizes == [] and box.lost == 4
    box = throttle.begin_batch(throttle.enqueue(box, how, [news(10)]), how, 61)
    assert box.sending is not None and box.sending.left_out == 1, "the second message said the first three"


def test_what_fails_is_tried_again_later_and_later_and_given_up_after_a_day() -> None:
    how, now = spec(), 0.0
    box = throttle.begin_batch(throttle.enqueue(Outbox(), how, [news(1)]), how, now)
    waits = []
    while box.sending is not None:
        first = box.sending.news
        box = throttle.record_failure(box, now, "HTTP 503", "t", retryable=True)
        if box.sending is not None:
            assert box.sending.news == first and not throttle.is_due(box, now)
            waits.append(box.sending.again - now)
            now = box.sending.again
    assert waits[:4] == [5, 10, 20, 40] and waits == sorted(waits) and waits[-1] == throttle.LONGEST_RETRY
    assert now >= throttle.GIVE_UP_AFTER and (box.lost, box.left_out) == (1, 1)


def test_a_server_says_when() -> None:
    box = throttle.begin_batch(throttle.enqueue(Outbox(), spec(), [news(1)]), spec(), 0)
    box = throttle.record_failure(box, 0, "HTTP 429", "t", retryable=True, wait=90)
    assert box.sending is not None and box.sending.again == 90


def test_what_will_not_pass_is_not_tried_again() -> None:
    box = throttle.begin_batch(throttle.enqueue(Outbox(), spec(), [news(1), news(2)]), spec(burst=1), 0)
    box = throttle.record_failure(box, 0, "HTTP 404", "t", retryable=False)
    assert box.sending is None and (box.lost, box.failed) == (2, 1)


def test_only_so_many_wait() -> None:
    box = throttle.enqueue(Outbox(), spec(), [news(n) for n in range(throttle.MAX_WAITING + 7)])
    assert len(box.waiting) == throttle.MAX_WAITING and box.left_out == box.lost == 7
    assert box.waiting[-1].id == f"event/{throttle.MAX_WAITING + 6}"


@STEADY
@given(
    st.integers(1, 4),
    st.integers(1, 100),
    st.booleans(),
    st.lists(st.tuples(st.integers(0, 120), st.integers(0, 6), st.sampled_from("ofp")), max_size=25),
)
def test_nothing_is_lost_uncounted_and_no_window_has_too_many(
    burst: int, every: int, digest: bool, script: list[tuple[int, int, str]]
) -> None:
    how = spec(every=f"{every}s", burst=burst, digest=digest)
    box, now, given_, sent, moments = Outbox(), 0.0, 0, [], []
    for pause, many, outcome in [*script, *[(7200, 0, "o")] * 12]:
        now += pause
        box = throttle.enqueue(box, how, [news(given_ + n) for n in range(many)])
        given_ += many
        while throttle.is_due(box := throttle.begin_batch(box, how, now), now):
            assert box.sending is not None
            if outcome == "o":
                sent += [each.id for each in box.sending.news]
                moments.append(now)
                box = throttle.record_sent(box, now, "ok", "t")
            else:
                box = throttle.record_failure(box, now, "no", "t", retryable=outcome == "f")
    assert len(sent) == len(set(sent)) and len(sent) + box.lost == given_
    assert box.sending is None and not box.waiting
    assert all(sum(at - every < other <= at for other in moments) <= burst for at in moments)
