"""What kernels write: whole, in part, as it comes, and after their end."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import cast

import pytest

from providers.abilities import LogStream, RecallsLogs
from providers.base import Provider
from providers.conformance.harness import ProviderHarness
from providers.conformance.kernels import (
    WORDS,
    StartedKernels,
    output,
    require_ability,
    require_programs,
    said,
)
from providers.conformance.waiting import until
from schemas.problems.errors.kernel import KernelNotFound

LINES = b"one\ntwo\nthree\n"


class _Follower(threading.Thread):
    """Reads on beside the test."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        super().__init__(daemon=True)
        self._chunks = chunks
        self.text = b""
        self.start()

    def run(self) -> None:
        for data in self._chunks:
            self.text += data

    def ended(self) -> bytes:
        """All, once there is no more."""
        until(lambda: not self.is_alive(), lambda: f"it is over: {self.text!r}")
        return self.text


class Output:
    def test_output_of_what_has_ended_is_whole_and_can_be_had_in_part(
        self, harness: ProviderHarness, provider: Provider, started: StartedKernels
    ) -> None:
        require_programs(harness)
        kernel_id = started.ended("ends").id
        with closing(harness.open()) as other:
            for asked in (provider, other):
                assert output(asked, kernel_id) == LINES
                assert b"".join(asked.logs(kernel_id, follow=True)) == LINES
            for tail, text in ((0, b""), (1, b"three\n"), (2, b"two\nthree\n"), (100, LINES)):
                assert b"".join(other.logs(kernel_id, tail=tail)) == text, tail
                assert b"".join(other.logs(kernel_id, tail=tail, follow=True)) == text, tail

    def test_who_follows_hears_what_comes_until_the_end(
        self, harness: ProviderHarness, provider: Provider, started: StartedKernels
    ) -> None:
        require_programs(harness)
        spec = started.ready("gate")
        with closing(harness.open()) as other:
            heard = _Follower(other.logs(spec.id, follow=True))
            until(lambda: heard.text == b"ready\n", lambda: f"what was written before: {heard.text!r}")
            started.let_go("gate")
            assert heard.ended() == b"ready\nafter\n"
        assert started.ended("gate").exit_code == 0

    def test_who_waits_for_output_can_be_freed(
        self, harness: ProviderHarness, provider: Provider, started: StartedKernels
    ) -> None:
        """Otherwise somebody who leaves keeps a thread and a connection until a quiet kernel says a word."""
        require_programs(harness)
        spec = started.ready("busy")
        with closing(harness.open()) as other:
            stream = other.logs(spec.id, follow=True)
            assert isinstance(stream, LogStream)
            heard = _Follower(stream)
            until(lambda: heard.text == b"ready\n", lambda: f"what was written before: {heard.text!r}")
            stream.abort()
            assert heard.ended() == b"ready\n"
            assert b"".join(other.logs(spec.id)) == b"ready\n"

    def test_commands_and_variables_reach_a_program_as_they_are(
        self, harness: ProviderHarness, provider: Provider, started: StartedKernels
    ) -> None:
        """And what it writes of them comes back so: nothing on the way is a shell, a format or a template."""
        require_programs(harness)
        kernel_id = started.ended("hostile").id
        said(provider, kernel_id, b"end\n")
        assert output(provider, kernel_id).decode() == "".join(f"{word}|" for word in WORDS * 2) + "end\n"

    def test_output_from_a_time_on_is_what_was_written_then(
        self, harness: ProviderHarness, provider: Provider, started: StartedKernels
    ) -> None:
        require_programs(harness)
        require_ability(provider, RecallsLogs)
        able = cast(RecallsLogs, provider)
        end = started.ended("ends")
        assert b"".join(able.logs_since(end.id, datetime.fromtimestamp(0, UTC))) == LINES
        assert b"".join(able.logs_since(end.id, datetime.now(UTC) + timedelta(hours=1))) == b""
        with pytest.raises(KernelNotFound):
            list(able.logs_since(harness.spec("nobody", "").id, datetime.now(UTC)))
