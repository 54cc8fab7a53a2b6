"""A kernel's output, as the kubelet of its node keeps it: of the run before, where it was begun anew, and of
the present one."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed
from urllib3 import BaseHTTPResponse
from urllib3.exceptions import HTTPError, ReadTimeoutError

from providers.abilities import LogStream
from providers.kubernetes.api.client import ApiClient
from providers.kubernetes.api.errors import ApiRefusal, api_errors
from providers.kubernetes.interaction.container_state import ContainerState, read_state
from providers.kubernetes.interaction.log_cursor import LogCursor, StampedLines
from providers.kubernetes.objects.names import PodRef, namespaced
from schemas.problems.errors.kernel import KernelNotFound
from schemas.problems.errors.provider import ProviderUnavailable

SILENCE = 240.0
"""Seconds without output after which it is asked for anew: a connection may have died without a word."""
PATIENCE = 60.0
"""Seconds for which an API server that does not answer is asked again, by who follows."""
PAUSE = 1.0
CHUNK = 2**16
_NOTHING_KEPT = 400
"""What the API answers for a run that has not begun, or of which nothing is left."""


def read_logs(
    client: ApiClient,
    pod: PodRef,
    *,
    follow: bool = False,
    tail: int | None = None,
    since: datetime | None = None,
) -> LogStream:
    """Standard output and error in the order written. Who follows goes on with the next run of a container
    that is begun anew, until it has ended for good or is gone. Raises KernelNotFound at once.
    """
    with api_errors(pod.name):
        state = read_state(client, pod)
    reader = _LogReader(client, pod, LogCursor(since), tail)
    return LogStream(reader.read(state, follow=follow), reader.abort)


class _LogReader:
    def __init__(self, client: ApiClient, pod: PodRef, cursor: LogCursor, tail: int | None) -> None:
        self._client = client
        self._pod = pod
        self._cursor = cursor
        self._tail = tail
        """Last lines of the first answer; None: all."""
        self._restarts = 0
        """As many runs are read to their end, or lost."""
        self._lock = threading.Lock()
        self._open: BaseHTTPResponse | None = None
        self._aborted = False

    def abort(self) -> None:
        """Ends the answer that is waited for, and every later one: whoever reads gets an OSError."""
        with self._lock:
            self._aborted = True
            if self._open is not None:
                with contextlib.suppress(ValueError, RuntimeError, OSError):  # It has ended.
                    self._open.shutdown()

    @contextlib.contextmanager
    def _stream(self, path: str, query: dict[str, Any], silence: float) -> Iterator[BaseHTTPResponse]:
        """An answer that `abort` ends. Raises ApiRefusal, OSError."""
        response = self._client.stream(path, query, silence=silence)
        try:
            with self._lock:
                if self._aborted:
                    raise OSError("nobody follows any more")
                self._open = response
            yield response
        finally:
            with self._lock:
                self._open = None
                response.close()

    def read(self, state: ContainerState, *, follow: bool) -> Iterator[bytes]:
        if not follow:
            with api_errors(self._pod.name):
                yield from self._read_state(state, follow=False)
            return
        while not self._aborted:
            try:
                with api_errors(self._pod.name):
                    yield from self._read_state(state, follow=state.running)
                if state.over:
                    return
            except (KernelNotFound, ProviderUnavailable):
                pass  # Whether it is so, the pod tells.
            try:
                state = self._look_again(state)
            except KernelNotFound:
                return

    def _look_again(self, state: ContainerState) -> ContainerState:
        """Once something may have changed. Raises KernelNotFound, ProviderError."""
        with contextlib.suppress(ApiRefusal, OSError):
            self._await_change(state, PAUSE if state.running or state.over else PATIENCE)
        retrying = Retrying(
            retry=retry_if_exception_type(ProviderUnavailable),
            stop=stop_after_delay(PATIENCE),
            wait=wait_fixed(PAUSE),
            reraise=True,
        )

        def look() -> ContainerState:
            with api_errors(self._pod.name):
                return read_state(self._client, self._pod)

        return retrying(look)

    def _read_state(self, state: ContainerState, *, follow: bool) -> Iterator[bytes]:
        """What is not yet read of the run before and of the present one."""
        if state.restarts > self._restarts:
            yield from self._read_previous(state)
        if state.began:
            query = {} if self._tail is None else {"tailLines": self._tail}
            for data in self._read_answer({**query, **({"follow": "true"} if follow else {})}):
                self._tail = None
                yield data

    def _read_previous(self, state: ContainerState) -> Iterator[bytes]:
        query: dict[str, Any] = {"previous": "true"}
        if self._tail is not None:
            missing = self._tail - (self._count_lines(self._tail) if state.began else 0)
            query["tailLines"] = max(0, missing)
        yield from self._read_answer(query)
        self._restarts = state.restarts

    def _count_lines(self, most: int) -> int:
        """Of the present run."""
        cursor = LogCursor()
        return sum(data.count(b"\n") for data in self._read_answer({"tailLines": most}, cursor))

    def _read_answer(self, asked: dict[str, Any], cursor: LogCursor | None = None) -> Iterator[bytes]:
        """From the cursor on. Raises ApiRefusal, OSError."""
        lines = StampedLines(cursor := cursor or self._cursor)
        since = {"sinceTime": cursor.since} if cursor.since else {}
        query = {"container": self._pod.container, "timestamps": "true", **since, **asked}
        try:
            with self._stream(f"{self._pod.path}/log", query, SILENCE) as response:
                for data in response.stream(CHUNK):
                    if new := lines.feed(data):
                        yield new
        except ApiRefusal as refusal:
            if refusal.status != _NOTHING_KEPT:
                raise
        except ReadTimeoutError as error:
            if "follow" not in asked:
                raise OSError(str(error)) from error
        except HTTPError as error:
            raise OSError(str(error)) from error

    def _await_change(self, state: ContainerState, seconds: float) -> None:
        """Wait until something happens to the pod, at most so long: who follows looks again in any case."""
        query = {
            "watch": "true",
            "fieldSelector": f"metadata.name={self._pod.name}",
            "resourceVersion": state.version,
        }
        try:
            with self._stream(namespaced("pods", self._pod.namespace), query, seconds) as response:
                told = next(response.stream(CHUNK), b"")
        except ReadTimeoutError:
            return
        except HTTPError as error:
            raise OSError(str(error)) from error
        if b'"ERROR"' in told[:40]:  # Its version is too old to be watched from.
            time.sleep(PAUSE)
