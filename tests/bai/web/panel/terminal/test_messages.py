"""Messages of pages: what is none of ours is none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bai.web.panel.terminal import messages

OPEN = {"kind": "open", "kernel": "main1", "program": "shell", "rows": 24, "columns": 80}
RESUME = {"kind": "resume", "id": "x", "known": None, "rows": 24, "columns": 80}


def test_each_message_is_read_as_what_it_is() -> None:
    assert isinstance(messages.read_first(json.dumps(OPEN)), messages.Opening)
    assert isinstance(messages.read_first(json.dumps(RESUME)), messages.Resuming)
    for message, kind in (
        ({"kind": "resize", "rows": 1, "columns": 1000}, messages.Resize),
        ({"kind": "shown", "bytes": 0}, messages.Shown),
        ({"kind": "leave"}, messages.Leave),
    ):
        assert isinstance(messages.read_later(json.dumps(message)), kind)


@pytest.mark.parametrize(
    "message",
    [
        "", "{", "null", "[]", '{"kind": "open"}',
        {**OPEN, "rows": 0}, {**OPEN, "rows": 1001}, {**OPEN, "rows": "24"}, {**OPEN, "columns": 1e300},
        {**OPEN, "program": "reboot"}, {**OPEN, "argv": ["reboot"]}, {**OPEN, "kernel": "x" * 51},
        {**RESUME, "known": -1}, {**RESUME, "known": 2**60}, {**RESUME, "id": "x" * 101},
        {"kind": "shown", "bytes": -1}, {"kind": "shown", "bytes": True}, {"kind": "leave", "more": 1},
    ],
)  # fmt: skip
def test_anything_else_is_refused(message: Any) -> None:
    text = message if isinstance(message, str) else json.dumps(message)
    for read in (messages.read_first, messages.read_later):
        with pytest.raises(messages.BadMessage):
            read(text)
