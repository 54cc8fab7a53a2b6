"""What is asked of a forge, and how it is asked: the seam."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol
from urllib.parse import urlsplit

import requests
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception,
    retry_if_result,
    stop_after_attempt,
    wait_exponential,
)

from providers.http_retry import wait_as_asked
from schemas.files.strict_json import parse_json
from schemas.problems.errors.forge import ForgeRefused, ForgeUnreachable
from schemas.values.naturals import parse_natural

CommitState = Literal["success", "failure", "error"]
PAGES = 100
"""Most pages of comments that are looked through."""
PAGE = 50
_TIMEOUT = (10.0, 30.0)
_ATTEMPTS = 5
_RETRY_STATUSES = frozenset({429, 502, 503, 504})
_LONGEST_WAIT = 60.0
"""Most seconds that a forge's `Retry-After` is followed."""
_LONGEST = 140
"""Characters that a status' description may have."""


@dataclass(frozen=True, slots=True)
class OpenRequest:
    """A pull or merge request that waits. Texts are what anybody wrote there."""

    number: int
    title: str
    author: str
    commit: str
    """Its newest."""
    base: str
    """The branch that it is to be merged into."""
    page: str
    """Its address on the forge; empty where that is none of http or https."""


MOST_REQUESTS = 200
"""Open requests that are looked at, the newest."""
_LONGEST_TEXT = 300
"""Characters that are kept of what a forge says of a request."""


class Forge(Protocol):
    """One repository on a forge."""

    def comment(self, number: int, marker: str, body: str) -> str:
        """Write the comment of pull request `number` that begins with `marker` anew, or make it; gives its
        address. Raises ForgeError."""
        ...

    def status(self, commit: str, state: CommitState, context: str, description: str, url: str = "") -> None:
        """Say how a commit fares in the eyes of `context`. Raises ForgeError."""
        ...

    def create_request(self, branch: str, base: str, title: str, body: str) -> str:
        """Open a pull request that would merge `branch` into `base`; gives its address. Raises
        ForgeError."""
        ...

    def open_requests(self) -> list[OpenRequest]:
        """The newest pull or merge requests that are open. Raises ForgeError."""
        ...


class ForgeApi:
    """JSON over HTTPS with a token. What may pass (429, 5xx) is tried again, honouring `Retry-After`."""

    def __init__(
        self, url: str, headers: Mapping[str, str], *, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self.url = url.rstrip("/")
        self._session = requests.Session()
        self._session.headers.update({"User-Agent": "bai", "Accept": "application/json", **headers})
        # An `auth` of our own keeps requests from looking into ~/.netrc.
        self._session.auth = lambda request: request
        self._retrying = Retrying(
            retry=retry_if_exception(_is_transient) | retry_if_result(_may_pass),
            stop=stop_after_attempt(_ATTEMPTS),
            wait=wait_as_asked(wait_exponential(multiplier=0.5), _LONGEST_WAIT),
            sleep=sleep,
            retry_error_callback=_last_answer,
        )

    def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, str] | None = None,
    ) -> Any:
        """The answer's JSON. Raises ForgeRefused, ForgeUnreachable."""
        where = urlsplit(self.url).netloc
        try:
            answer = self._retrying(
                self._session.request, method, f"{self.url}{path}",
                json=body, params=query, timeout=_TIMEOUT, allow_redirects=False,
            )  # fmt: skip
        except requests.RequestException as error:
            raise ForgeUnreachable(forge=where, why=type(error).__name__) from error
        if answer.status_code >= 300:
            raise ForgeRefused(
                forge=where,
                request=f"{method} {path}",
                why=_error_message(answer),
                hint=_HINTS.get(answer.status_code, ""),
                status=answer.status_code,
            )
        try:
            return parse_json(answer.content) if answer.content else None
        except ValueError as error:
            raise ForgeRefused(
                forge=where, request=f"{method} {path}", why="it does not answer in JSON"
            ) from error

    def pages(self, path: str, size: str, asked: Mapping[str, str] | None = None) -> Iterator[Any]:
        """The items of a list, page after page; `size` is the name of the parameter for their number, `asked`
        what else is asked for."""
        for page in range(1, PAGES + 1):
            found = self.call("GET", path, query={**(asked or {}), size: str(PAGE), "page": str(page)})
            if not isinstance(found, list):
                where = urlsplit(self.url).netloc
                raise ForgeRefused(forge=where, request=f"GET {path}", why="it does not answer with a list")
            yield from found
            if len(found) < PAGE:
                return


_HINTS = {
    401: "the token is missing, wrong or has expired",
    403: "the token may not do this: it needs to write pull requests, and statuses of commits",
    404: "no such repository or pull request, or the token may not see it",
}


def read_request(found: Mapping[str, Any], names: Mapping[str, str]) -> OpenRequest | None:
    """A request as a forge's JSON has it; None for what is none. `names`: where its fields stand, `head.sha`
    below each other."""

    def text(field: str) -> str:
        return text_at(found, names[field])[:_LONGEST_TEXT]

    number, page = parse_natural(text("number")), text("page")
    if not number:
        return None
    page = page if urlsplit(page).scheme in ("http", "https") else ""
    return OpenRequest(number, text("title"), text("author"), text("commit"), text("base"), page)


def text_at(found: Any, path: str) -> str:
    """What stands in a forge's JSON at `head.sha`; empty where there is nothing."""
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return str(found or "")


def is_already_there(refused: ForgeRefused) -> bool:
    """Whether a request may have been refused because it is open: an attempt whose answer was lost has opened
    it."""
    return refused.fields.get("status") in (409, 422)


def shorten_description(description: str) -> str:
    """As long as a status may be."""
    return description if len(description) <= _LONGEST else description[: _LONGEST - 1] + "…"


def _is_transient(error: BaseException) -> bool:
    return isinstance(error, requests.ConnectionError | requests.Timeout) and not isinstance(
        error, requests.exceptions.SSLError
    )


def _may_pass(answer: requests.Response) -> bool:
    return answer.status_code in _RETRY_STATUSES


def _last_answer(state: RetryCallState) -> requests.Response:
    assert state.outcome is not None
    answer: requests.Response = state.outcome.result()
    return answer


def _error_message(answer: requests.Response) -> str:
    """The status and what is said of it: a sentence and, of GitHub, the reasons beside it; of GitLab one or
    several."""
    try:
        said = parse_json(answer.content)
    except ValueError:
        said = None
    words: list[str] = []
    if isinstance(said, dict):
        first, reasons = said.get("message") or said.get("error") or "", said.get("errors")
        words = [str(each) for each in (first if isinstance(first, list) else [first])]
        words += [_reason_text(each) for each in (reasons if isinstance(reasons, list) else [])]
    return f"{answer.status_code} {': '.join(filter(None, words))[:_LONGEST_TEXT]}".strip()


def _reason_text(reason: Any) -> str:
    """`No commits between main and topic`, or `head is invalid` where only the field and a code are said."""
    if isinstance(reason, str):
        return reason
    return text_at(reason, "message") or " is ".join(
        filter(None, (text_at(reason, "field"), text_at(reason, "code")))
    )
