"""Requests to a service, all the time and of several kinds, and what came of each."""

from __future__ import annotations

import http.client
import json
import select
import threading
import time
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Self

from tests.waiting import until

PATIENCE = 60.0
PAUSE = 0.02
"""Seconds between two requests of one client: it is not the machine that is tried."""
MOST = 200_000
_BODY = bytes(range(256)) * 64
_KINDS = ("get", "post", "stream", "fresh")
REPEATED = ("get", "fresh")
"""What has no effect is asked of another replica where one breaks off."""


@dataclass(frozen=True)
class Outcome:
    """Of one request. `begun` and `ended`: by the monotonic clock; `generation`: of the replica that
    answered; `problem`: empty where the answer was right and whole."""

    kind: str
    begun: float
    ended: float
    generation: str
    problem: str

    def meets(self, since: float, until: float) -> bool:
        """Whether it was under way at any moment of these."""
        return self.begun <= until and self.ended >= since


class Load:
    """Clients in threads, at `port` of this machine, from entering it to leaving it."""

    def __init__(self, port: int, headers: Mapping[str, str], clients: int = 6) -> None:
        self._port, self._headers = port, dict(headers)
        self._over = threading.Event()
        self.outcomes: list[Outcome] = []
        self._threads = [threading.Thread(target=self._client, args=(each,)) for each in range(clients)]

    def __enter__(self) -> Self:
        for each in self._threads:
            each.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for each in self._threads:
            each.join()

    def since(self, moment: float) -> list[Outcome]:
        """Requests that began after it."""
        return [each for each in list(self.outcomes) if each.begun > moment]

    def problems(self, since: float, but: Collection[tuple[float, float]] = ()) -> list[Outcome]:
        """Of requests that began after `since`; not of those under way in one of the times of `but`."""
        return [
            each
            for each in self.since(since)
            if each.problem and not any(each.meets(*time_of) for time_of in but)
        ]

    def until_asked(self, times: int = 20) -> None:
        """Until so many requests are over that began after now."""
        since = time.monotonic()
        until(lambda: len(self.since(since)) >= times, "requests are answered")

    def answered_by(self, since: float) -> Counter[str]:
        """Generations by their answers."""
        return Counter(each.generation for each in self.since(since) if not each.problem)

    def _client(self, number: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE)
        while not self._over.wait(PAUSE) and len(self.outcomes) < MOST:
            kind = _KINDS[number % len(_KINDS)]
            number += 1
            if kind == "fresh" or _was_closed(connection):
                connection.close()
            begun = time.monotonic()
            generation, problem = "", ""
            try:
                generation = self._asked(connection, kind)
            except (OSError, http.client.HTTPException, ValueError) as error:
                problem = f"{type(error).__name__}: {error}"
                connection.close()
            self.outcomes.append(Outcome(kind, begun, time.monotonic(), generation, problem))
        connection.close()

    def _asked(self, connection: http.client.HTTPConnection, kind: str) -> str:
        """Gives the generation that has answered. Raises ValueError for a wrong answer, OSError and
        HTTPException for none."""
        body = _BODY if kind == "post" else None
        path = "/stream" if kind == "stream" else "/"
        connection.request("POST" if body else "GET", path, body, self._headers)
        answer = connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise ValueError(f"status {answer.status}: {text[:200]!r}")
        lines = text.decode().splitlines()
        said = json.loads(lines[0])
        if kind == "stream" and (len(lines) < 2 or lines[-1] != "end"):
            raise ValueError(f"a stream that breaks off: {lines}")
        if body and said["length"] != len(body):
            raise ValueError(f"of {len(body)} bytes there came {said['length']}")
        return str(said["version"])


def _was_closed(connection: http.client.HTTPConnection) -> bool:
    """Whether the other side has ended it between two requests, as clients see that look before they ask."""
    stream = connection.sock
    return stream is not None and bool(select.select([stream], [], [], 0)[0])
