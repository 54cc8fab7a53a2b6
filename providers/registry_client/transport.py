"""HTTP to one registry: bounded, retried where that can help, every failure an error that says what to do."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin, urlsplit

import requests
import urllib3
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
from providers.machines.tls import text_as_file
from providers.registry_client.access import RegistryAccess
from schemas.files.strict_json import parse_json
from schemas.problems.errors.registry import RegistryError, RegistryUnreachable, RegistryUntrusted

ATTEMPTS = 3
_RETRY_STATUSES = frozenset({429, 500, 502, 503, 504})
_LONGEST_WAIT = 10.0
"""Most seconds that a registry's `Retry-After` is followed."""
LARGEST = 8 * 2**20
"""Most bytes of an answer that are read: manifests have at most 4 MiB."""


@dataclass(frozen=True, slots=True)
class RegistryResponse:
    """A whole answer."""

    status: int
    headers: Mapping[str, str]
    content: bytes
    url: str

    def json(self) -> Any:
        """Raises ValueError for anything else."""
        return parse_json(self.content)

    @property
    def following(self) -> str:
        """The next page's address, from the `Link` header; empty on the last."""
        links = requests.utils.parse_header_links(self.headers.get("Link", ""))
        found = next((link["url"] for link in links if link.get("rel") == "next"), "")
        return urljoin(self.url, found) if found else ""


class Transport:
    """GET requests to one registry. May be used by several threads, each with its own connection."""

    def __init__(self, access: RegistryAccess, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self.access = access
        self._sleep = sleep
        self._session = requests.Session()
        self._files = contextlib.ExitStack()
        self._verify = (
            self._files.enter_context(text_as_file(access.ca)) if access.ca else not access.insecure
        )
        self._session.headers["User-Agent"] = "bai"
        self._session.auth = no_netrc_login
        if access.insecure:
            # The Registry's document is warned about, once and in words.
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)

    def get(
        self,
        target: str,
        *,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
        basic: tuple[str, str] | None = None,
        most: int = LARGEST,
    ) -> RegistryResponse:
        """`target` is a path of the registry or a whole address. An answer of any status below 500, save
        429, and of at most `most` bytes is given back. Raises RegistryUnreachable, RegistryUntrusted,
        RegistryError."""
        url = urljoin(self.access.url, target)
        if self.access.url.startswith("https:") and urlsplit(url).scheme != "https":
            raise self._error(f"it leads to {url} without TLS, which is not followed")
        retrying = Retrying(
            retry=retry_if_exception_type(RegistryUnreachable) | retry_if_result(_may_pass),
            stop=stop_after_attempt(ATTEMPTS),
            wait=wait_as_asked(wait_exponential(multiplier=0.3, exp_base=3), _LONGEST_WAIT),
            sleep=self._sleep,
            retry_error_callback=self._give_up,
        )
        return retrying(self._get_once, url, headers, query, basic, most)

    def _get_once(
        self,
        url: str,
        headers: Mapping[str, str] | None,
        query: Mapping[str, str] | None,
        basic: tuple[str, str] | None,
        most: int,
    ) -> RegistryResponse:
        try:
            with self._session.get(
                url,
                headers=dict(headers or {}),
                params=dict(query or {}),
                auth=basic,
                timeout=self.access.timeout,
                verify=self._verify,
                stream=True,
            ) as response:
                content = response.raw.read(most + 1, decode_content=True)
                answer = RegistryResponse(response.status_code, response.headers, content, response.url)
        except requests.exceptions.SSLError as error:
            raise self._untrusted(error) from None
        except (requests.exceptions.ConnectionError, requests.exceptions.Timeout) as error:
            raise RegistryUnreachable(registry=self.access.address, why=innermost_reason(error)) from None
        except (requests.exceptions.RequestException, OSError) as error:
            raise self._error(innermost_reason(error)) from None
        except Exception as error:  # urllib3's own, while the body is read
            raise RegistryUnreachable(registry=self.access.address, why=innermost_reason(error)) from None
        if len(answer.content) > most:
            raise self._error(f"an answer has more than {most} bytes")
        return answer

    def _untrusted(self, error: Exception) -> RegistryError:
        why = innermost_reason(error)
        if "WRONG_VERSION_NUMBER" in why or "record layer failure" in why.lower():
            hint = "does it speak TLS at all? A registry without needs plainHttp: true"
        elif "certificate" in why.lower():
            hint = "name the certificate of its authority in the Registry's caFrom"
        else:
            hint = ""
        return RegistryUntrusted(registry=self.access.address, why=why, hint=hint)

    def _give_up(self, state: RetryCallState) -> RegistryResponse:
        assert state.outcome is not None
        error = state.outcome.exception()
        if isinstance(error, RegistryUnreachable):
            why = str(error.fields["why"])
        else:
            why = f"status {state.outcome.result().status}"
        raise RegistryUnreachable(
            registry=self.access.address, why=f"{why} (tried {ATTEMPTS} times)"
        ) from None

    def _error(self, why: str) -> RegistryError:
        return RegistryError(registry=self.access.address, why=why)

    def close(self) -> None:
        self._session.close()
        self._files.close()


def _may_pass(answer: RegistryResponse) -> bool:
    return answer.status in _RETRY_STATUSES
