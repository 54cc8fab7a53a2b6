"""What is kept of a terminal's output: all that no page has shown, and the last of what one has."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bai.web.panel.terminal.output_window import OutputWindow

KEPT, AHEAD = 64, 32


@given(st.lists(st.tuples(st.binary(max_size=48), st.integers(0, 400))))
def test_what_was_not_shown_is_there_and_little_more_than_is_kept(
    steps: list[tuple[bytes, int]],
) -> None:
    window, written = OutputWindow(KEPT, AHEAD), b""
    for data, shown in steps:
        if window.has_room:
            window.append(data)
            written += data
        window.acknowledge(shown)
        assert window.end == len(written) and window.start <= window.taken <= window.end
        assert window.piece(window.start, len(written)) == written[window.start :]
        assert window.end - window.start >= min(KEPT, window.end)
        assert window.end - window.start <= KEPT + AHEAD + 48


def test_a_page_goes_on_where_it_was_or_begins_with_what_is_there() -> None:
    window = OutputWindow(4, 100)
    window.append(b"0123456789")
    assert (window.start, window.resume_at(7), window.piece(7, 2)) == (0, 7, b"78")
    window.acknowledge(10)
    assert window.start == 6
    assert [window.resume_at(known) for known in (0, 5, 6, 10, 11)] == [6, 6, 6, 10, 6]


def test_who_says_more_than_was_written_makes_no_room_for_it() -> None:
    window = OutputWindow(4, 2)
    window.acknowledge(1000)
    window.append(b"ab")
    assert not window.has_room
    window.acknowledge(1)
    assert window.has_room
