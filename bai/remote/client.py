"""HTTP to one server: bounded, tried again where that can help, every failure an error that says what to do.

What a server says is shown to people and never followed: no redirects, no login of `~/.netrc`.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import requests
import urllib3
from requests.adapters import HTTPAdapter
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    retry_if_result,
    stop_after_attempt,
    wait_exponential,
)

from providers.http_requests import innermost_reason, no_netrc_login
from providers.http_retry import wait_as_asked
from schemas.files.regular_files import check_regular_file
from schemas.files.strict_json import parse_json
from schemas.problems.errors.repository import CannotRead
from schemas.problems.errors.server import (
    NotLoggedIn,
    NotOnServer,
    ServerError,
    ServerRefused,
    ServerUnreachable,
)
from schemas.problems.text import printable

ATTEMPTS = 4
CONNECT_TIMEOUT, READ_TIMEOUT = 10.0, 75.0
"""Seconds; a server answers, or refuses, within a minute."""
LARGEST = 128 * 2**20
"""Bytes of an answer."""
_RETRY_STATUSES = frozenset({429, 502, 503, 504})
_LONGEST_WAIT = 5.0
_LONGEST_REASON = 1000


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole answer."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    def reason(self) -> str:
        """What it says is wrong."""
        try:
            value = parse_json(self.content)
        except ValueError:
            value = None
        found = value.get("detail") if isinstance(value, dict) else None
        text = found if isinstance(found, str) and found else f"HTTP status {self.status}"
        return printable(text[:_LONGEST_REASON])


class ApiClient:
    """Requests to one server. `ca`: a file of certificates to believe in place of the system's; `token`: what
    to show, which may have to be renewed first."""

    def __init__(self, server: str, *, ca: str | None = None, token: Callable[[], str] = lambda: "") -> None:
        self.server = server
        self._token = token
        self._session = requests.Session()
        # Given with each request: the session's own gives way to REQUESTS_CA_BUNDLE.
        self._verify: str | bool = ca or True
        self._session.headers["User-Agent"] = "bai"
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, _KeepAliveAdapter())
        if ca is not None:
            _check_ca(ca)

    def get(self, path: str, params: Mapping[str, Any] | None = None) -> Any:
        """The JSON of an answer. Raises ServerError."""
        retrying = Retrying(
            retry=retry_if_exception_type(ServerUnreachable) | retry_if_result(_may_pass),
            stop=stop_after_attempt(ATTEMPTS),
            wait=wait_as_asked(wait_exponential(multiplier=0.3, exp_base=3), _LONGEST_WAIT),
            retry_error_callback=_last_outcome,
        )
        reply = retrying(self._exchange, "GET", path, params=dict(params or {}))
        self._check(reply, f"GET {path}")
        return self._json(reply)

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """The JSON of the answer. Sent once: an order is not given twice. Raises ServerError."""
        reply = self._exchange("POST", path, json=dict(body))
        self._check(reply, f"POST {path}")
        return self._json(reply)

    @contextlib.contextmanager
    def stream(
        self, path: str, params: Mapping[str, Any], *, silence: float | None, headers: Mapping[str, str]
    ) -> Iterator[Iterator[bytes]]:
        """Pieces of an answer as they come; `silence`: seconds after which one that says nothing is over.
        Raises ServerError."""
        with self._translated():
            response = self._session.get(
                self.server + path, params=dict(params), headers={**self._headers(), **headers},
                timeout=(CONNECT_TIMEOUT, silence), allow_redirects=False, stream=True, auth=no_netrc_login,
                verify=self._verify,
            )  # fmt: skip
        with response:
            if response.status_code != 200:
                with self._translated():
                    content = response.raw.read(_LONGEST_REASON * 8, decode_content=True)
                self._check(Reply(response.status_code, response.headers, content), f"GET {path}")
            yield self._pieces(response)

    def _pieces(self, response: requests.Response) -> Iterator[bytes]:
        with self._translated():
            # One read returns what is there: nothing is held back until a piece is full.
            while piece := response.raw.read1(1 << 16, decode_content=True):
                yield piece

    def _exchange(self, method: str, path: str, **options: Any) -> Reply:
        with (
            self._translated(),
            self._session.request(
                method, self.server + path, headers=self._headers(), allow_redirects=False, stream=True,
                timeout=(CONNECT_TIMEOUT, READ_TIMEOUT), auth=no_netrc_login, verify=self._verify, **options,
            ) as response,
        ):  # fmt: skip
            content = response.raw.read(LARGEST + 1, decode_content=True)
            if len(content) > LARGEST:
                raise ServerError(server=self.server, why=f"it answers with more than {LARGEST >> 20} MiB")
            return Reply(response.status_code, response.headers, content)

    def _headers(self) -> dict[str, str]:
        token = self._token()
        return {"Authorization": f"Bearer {token}"} if token else {}

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except requests.exceptions.SSLError as error:
            hint = "name its certificate authority: `bai login URL --ca FILE`"
            raise ServerError(
                server=self.server, why=f"TLS: {printable(innermost_reason(error))}", hint=hint
            ) from None
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
            raise ServerUnreachable(server=self.server, why=printable(innermost_reason(error))) from None

    def _check(self, reply: Reply, request: str) -> None:
        """Raises ServerError for what is no good answer."""
        if 200 <= reply.status < 300:
            return
        why = reply.reason()
        if reply.status == 401:
            raise NotLoggedIn(server=self.server, why=why, hint=f"bai login {self.server}")
        if reply.status in _RETRY_STATUSES:
            raise ServerUnreachable(server=self.server, why=why)
        if 300 <= reply.status < 400:
            why = f"it leads to {printable(reply.headers.get('Location', 'nowhere'))}, which is not followed"
            raise ServerError(server=self.server, why=why)
        refused = NotOnServer if reply.status == 404 else ServerRefused
        raise refused(server=self.server, request=request, why=why)

    def _json(self, reply: Reply) -> Any:
        try:
            return parse_json(reply.content)
        except ValueError:
            why = "its answer is no JSON; is this `bai serve`?"
            raise ServerError(server=self.server, why=why) from None


class _KeepAliveAdapter(HTTPAdapter):
    """Notices also while nothing is said that the other side is gone without a word."""

    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
        found = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1), (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)]
        for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
            if hasattr(socket, name):
                found.append((socket.IPPROTO_TCP, getattr(socket, name), value))
        super().init_poolmanager(*arguments, **options, socket_options=found)


def _check_ca(path: str) -> None:
    try:
        check_regular_file(path)
    except OSError as error:
        raise CannotRead(what=path, why=error.strerror or str(error)) from None


def _may_pass(reply: Reply) -> bool:
    return reply.status in _RETRY_STATUSES


def _last_outcome(state: RetryCallState) -> Reply:
    assert state.outcome is not None
    found: Reply = state.outcome.result()
    return found
