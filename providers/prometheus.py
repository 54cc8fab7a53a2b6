"""Questions to one Prometheus, whose address its operator gives; documents give queries alone.

Source: https://prometheus.io/docs/prometheus/latest/querying/api/ (instant queries).
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from schemas.files.strict_json import parse_json
from schemas.problems.errors.command import CommandError
from schemas.problems.text import format_value

if TYPE_CHECKING:
    import requests

TIMEOUT = 5.0
"""Seconds that an answer may take, all of it."""
LONGEST_ANSWER = 1 << 16
"""Bytes."""
MOST_TOLD = 200
"""Queries whose failures are remembered, so that each is said once."""
_PATH = "/api/v1/query"
_LONGEST_TOLD = 80


class Prometheus:
    """`url`: of its server, with a path where it has one (`http://prometheus:9090`). `say` hears why a query
    gives no number, once for each reason. May be used from several threads. Raises CommandError for what is
    no such address."""

    def __init__(self, url: str, say: Callable[[str], None]) -> None:
        self._url = _checked(url).rstrip("/") + _PATH
        self._where = urlsplit(url).hostname or ""
        self._say = say
        self._lock = threading.Lock()
        self._told: dict[str, str] = {}

    def query(self, promql: str) -> float | None:
        """The number that it gives just now: of a scalar, or of a vector of one. None where there is no such
        number, or no answer in time. Raises nothing."""
        try:
            value = _number(self._ask(promql))
        except _NoNumberError as error:
            self._tell(promql, str(error))
            return None
        with self._lock:
            self._told.pop(promql, None)
        return value

    def _ask(self, promql: str) -> Any:
        """The answer's JSON. Raises _NoNumberError."""
        import requests

        try:
            # A POST would do for longer ones, and could be taken for a change by what stands between.
            with requests.get(
                self._url, params={"query": promql, "timeout": f"{TIMEOUT:g}s"}, timeout=TIMEOUT,
                headers={"User-Agent": "bai", "Accept": "application/json"}, allow_redirects=False,
                auth=_no_auth, stream=True,
            ) as answer:  # fmt: skip
                body = _bounded(answer)
        except requests.RequestException as error:
            raise _NoNumberError(f"it is not reached ({type(error).__name__})") from None
        try:
            found = parse_json(body)
        except ValueError:
            raise _NoNumberError(f"it answers HTTP {answer.status_code}, and no JSON") from None
        if answer.status_code != requests.codes.ok:
            told = found.get("error", "") if isinstance(found, dict) else ""
            why = f": {format_value(told)}" if isinstance(told, str) and told else ""
            raise _NoNumberError(f"it answers HTTP {answer.status_code}{why}")
        return found

    def _tell(self, promql: str, why: str) -> None:
        with self._lock:
            if self._told.get(promql) == why:
                return
            if len(self._told) >= MOST_TOLD:
                self._told.pop(next(iter(self._told)))
            self._told[promql] = why
        short = promql if len(promql) <= _LONGEST_TOLD else f"{promql[:_LONGEST_TOLD]}…"
        self._say(f"Prometheus at {self._where}, {format_value(short)}: {why}")


class _NoNumberError(Exception):
    """Why there is no number, in words."""


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        known = False
    if not known or parts.query or parts.fragment or parts.username is not None:
        hint = "such as http://prometheus:9090, without a login, ? and #"
        raise CommandError(why=f"--prometheus: {format_value(url)} is not the URL of a server", hint=hint)
    return url


def _no_auth(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """Not a login from somebody's .netrc."""
    return request


def _bounded(answer: requests.Response) -> bytes:
    """Raises _NoNumberError, RequestException."""
    end = time.monotonic() + TIMEOUT
    body = bytearray()
    # A larger piece waits until it is full, however slowly it comes.
    for piece in answer.iter_content(1):
        body += piece
        if len(body) > LONGEST_ANSWER:
            raise _NoNumberError("it answers with more than one number")
        if time.monotonic() > end:
            raise _NoNumberError(f"its answer is not complete after {TIMEOUT:g} seconds")
    return bytes(body)


def _number(answer: Any) -> float:
    """Raises _NoNumberError."""
    data = answer.get("data") if isinstance(answer, dict) and answer.get("status") == "success" else None
    kind = data.get("resultType") if isinstance(data, dict) else None
    result = data.get("result") if isinstance(data, dict) else None
    if kind == "vector" and isinstance(result, list):
        if len(result) != 1:
            count = "several series" if result else "no series"
            raise _NoNumberError(f"it gives {count}, and one is needed: sum or max make one of them")
        sample = result[0].get("value") if isinstance(result[0], dict) else None
    elif kind == "scalar":
        sample = result
    else:
        raise _NoNumberError("it gives neither a scalar nor a vector of one")
    try:
        _, text = sample if isinstance(sample, list) else (None, None)
        value = float(text) if isinstance(text, str) else math.nan
    except ValueError:
        raise _NoNumberError("its answer is not understood") from None
    if not math.isfinite(value):
        raise _NoNumberError(f"it gives {text}, which is no number")
    return value
