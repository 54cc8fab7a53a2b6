"""What goes out when: never more than the throttle allows, nothing lost without being counted."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.notify import throttle as boxes
from reconciler.notify.state import Box
from schemas.kinds.notification import NotificationSpec
from tests.reconciler.notify.support import news, notification

STEADY = settings(deadline=None, derandomize=True, database=None)


def spec(**throttle: object) -> NotificationSpec:
    return notification(throttle=throttle).spec


def run(box: Box, how: NotificationSpec, now: float) -> tuple[Box, list[int]]:
    """Send what goes now; the sizes of the messages."""
    sizes: list[int] = []
    while True:
        box = boxes.begun(box, how, now)
        if not boxes.due(box, now):
            return box, sizes
        assert box.sending is not None
        sizes.append(len(box.sending.news))
        box = boxes.sent(box, now, "ok", "t")


def test_few_go_out_one_by_one_and_many_in_one_message() -> None:
    how = spec(every="5m", burst=3)
    box, sizes = run(boxes.put(Box(), how, [news(n) for n in range(2)]), how, 0)
    assert sizes == [1, 1]
    box, sizes = run(boxes.put(box, how, [news(n) for n in range(40)]), how, 1)
    assert sizes == [40]
    box, sizes = run(boxes.put(box, how, [news(n) for n in range(7)]), how, 2)
    assert sizes == [] and boxes.next_at(box, how) == 300
    box, sizes = run(box, how, 299)
    assert sizes == []
    box, sizes = run(box, how, 300)
    assert sizes == [7] or sum(sizes) == 7
    assert box.lost == 0 and boxes.next_at(box, how) is None


def test_without_digest_what_is_more_is_counted_and_said() -> None:
    how = spec(every="1m", burst=2, digest=False)
    box, sizes = run(boxes.put(Box(), how, [news(n) for n in range(5)]), how, 0)
    assert sizes == [1, 1] and box.lost == 3
    box, sizes = run(boxes.put(box, how, [news(9)]), how, 30)
    assert sizes == [] and box.lost == 4
    box = boxes.begun(boxes.put(box, how, [news(10)]), how, 61)
    assert box.sending is not None and box.sending.left_out == 1, "the second message said the first three"


def test_what_fails_is_tried_again_later_and_later_and_given_up_after_a_day() -> None:
    how, now = spec(), 0.0
    box = boxes.begun(boxes.put(Box(), how, [news(1)]), how, now)
    waits = []
    while box.sending is not None:
        first = box.sending.news
        box = boxes.failed(box, now, "HTTP 503", "t", may_pass=True)
        if box.sending is not None:
            assert box.sending.news == first and not boxes.due(box, now)
            waits.append(box.sending.again - now)
            now = box.sending.again
    assert waits[:4] == [5, 10, 20, 40] and waits == sorted(waits) and waits[-1] == boxes.LONGEST
    assert now >= boxes.GIVEN_UP and (box.lost, box.left_out) == (1, 1)


def test_a_server_says_when() -> None:
    box = boxes.begun(boxes.put(Box(), spec(), [news(1)]), spec(), 0)
    box = boxes.failed(box, 0, "HTTP 429", "t", may_pass=True, wait=90)
    assert box.sending is not None and box.sending.again == 90


def test_what_will_not_pass_is_not_tried_again() -> None:
    box = boxes.begun(boxes.put(Box(), spec(), [news(1), news(2)]), spec(burst=1), 0)
    box = boxes.failed(box, 0, "HTTP 404", "t", may_pass=False)
    assert box.sending is None and (box.lost, box.failed) == (2, 1)


def test_only_so_many_wait() -> None:
    box = boxes.put(Box(), spec(), [news(n) for n in range(boxes.MOST + 7)])
    assert len(box.waiting) == boxes.MOST and box.left_out == box.lost == 7
    assert box.waiting[-1].id == f"event/{boxes.MOST + 6}"


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
    box, now, given_, sent, moments = Box(), 0.0, 0, [], []
    for pause, many, outcome in [*script, *[(7200, 0, "o")] * 12]:
        now += pause
        box = boxes.put(box, how, [news(given_ + n) for n in range(many)])
        given_ += many
        while boxes.due(box := boxes.begun(box, how, now), now):
            assert box.sending is not None
            if outcome == "o":
                sent += [each.id for each in box.sending.news]
                moments.append(now)
                box = boxes.sent(box, now, "ok", "t")
            else:
                box = boxes.failed(box, now, "no", "t", may_pass=outcome == "f")
    assert len(sent) == len(set(sent)) and len(sent) + box.lost == given_
    assert box.sending is None and not box.waiting
    assert all(sum(at - every < other <= at for other in moments) <= burst for at in moments)
