"""How far a kernel's output has been read, so that it goes on there after a connection broke: by the time
that the kubelet puts before each line, to the nanosecond, and by how many lines had that time. Pure.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d) ")
_LONGEST_STAMP = 40
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = 10**9


class LogCursor:
    """The last line that was read; `start` is a time before which nothing counts."""

    def __init__(self, start: datetime | None = None) -> None:
        self.time = -1 if start is None else (start - _EPOCH) // timedelta(microseconds=1) * 1000
        """Nanoseconds since the epoch; negative: nothing was read."""
        self.lines = 0
        """Whole lines of this very time."""
        self.begun = 0
        """Bytes of the next one."""

    @property
    def since(self) -> str:
        """What to ask for: the API knows whole seconds. Empty: everything."""
        if self.time < 0:
            return ""
        return (_EPOCH + timedelta(seconds=self.time // SECOND)).strftime("%Y-%m-%dT%H:%M:%SZ")


class StampedLines:
    """One answer of the API with a time before each line: gives what lies behind the cursor, without these
    times, and moves the cursor. What comes before the first time is dropped: the end of a line that has been
    read, or the kubelet's own word on what it has not."""

    def __init__(self, cursor: LogCursor) -> None:
        self._cursor = cursor
        self._passing = False
        self._same = 0
        """Lines of this answer that had the cursor's time, while nothing is passed on yet."""
        self._skipped = 0
        """Bytes left of the present line that have been read; negative: all of it."""
        self._in_line = False
        self._held = b""
        self._second = b""
        self._second_began = 0

    def feed(self, data: bytes) -> bytes:
        return b"".join(self._pieces(self._held + data))

    def _pieces(self, data: bytes) -> list[bytes]:
        found: list[bytes] = []
        self._held = b""
        for line in _split_lines(data):
            text = line
            if not self._in_line:
                stamp = _STAMP.match(line)
                if stamp is None and len(line) < _LONGEST_STAMP and not line.endswith(b"\n"):
                    self._held = line
                    break
                self._begin(stamp)
                text = line[stamp.end() :] if stamp else line
            found.append(self._take(text))
            self._in_line = not line.endswith(b"\n")
        return found

    def _begin(self, stamp: re.Match[bytes] | None) -> None:
        cursor = self._cursor
        if stamp is None:
            self._skipped = 0 if self._passing else -1
            return
        time = self._nanoseconds(stamp)
        self._skipped = 0
        if not self._passing:
            if time == cursor.time:
                self._same += 1
            if time < cursor.time or (time == cursor.time and self._same <= cursor.lines):
                self._skipped = -1
                return
            self._passing = True
            if time == cursor.time:
                self._skipped = cursor.begun
                return
        if time != cursor.time:
            cursor.time, cursor.lines = time, 0
        cursor.begun = 0

    def _take(self, text: bytes) -> bytes:
        if self._skipped < 0:
            return b""
        cursor = self._cursor
        new = text[self._skipped :]
        self._skipped = max(0, self._skipped - len(text))
        cursor.begun += len(new)
        if new.endswith(b"\n"):
            cursor.lines, cursor.begun = cursor.lines + 1, 0
        return new

    def _nanoseconds(self, stamp: re.Match[bytes]) -> int:
        second = stamp[1] + stamp[3]
        if second != self._second:
            self._second = second
            moment = datetime.fromisoformat(second.decode())
            self._second_began = (moment - _EPOCH) // timedelta(seconds=1) * SECOND
        return self._second_began + int((stamp[2] or b"0").ljust(9, b"0"))


def _split_lines(data: bytes) -> list[bytes]:
    """At line feeds only, and with them."""
    lines = data.split(b"\n")
    return [each + b"\n" for each in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
