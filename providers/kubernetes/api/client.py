"""Requests to one API server: JSON in and out, lists page by page, streams. Safe for several threads."""

from __future__ import annotations

import json
import ssl
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

import urllib3
from urllib3.exceptions import HTTPError
from urllib3.response import BaseHTTPResponse

from providers.kubernetes.api.access import ClusterAccess
from providers.kubernetes.api.credentials import ClientCertificate
from providers.kubernetes.api.errors import UNAUTHORIZED, refusal_of

CONNECTIONS = 128
"""Kept of each kind; a request beyond them waits, a stream beyond them has one that is closed after use."""
TIMEOUT = urllib3.Timeout(connect=10, read=60)
PAGE = 2000
"""Objects of a list that are asked for at once."""
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
LARGEST = 256 * 2**20
"""Bytes of one answer."""

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ObjectList:
    items: tuple[Object, ...]
    version: str
    """From which a watch goes on."""


class ApiClient:
    """Methods raise ApiRefusal for what the server refuses and OSError for a connection that breaks."""

    def __init__(self, access: ClusterAccess) -> None:
        self.access = access
        self._lock = threading.Lock()
        self._pool: urllib3.PoolManager | None = None
        self._streams: urllib3.PoolManager | None = None
        self._tls: ssl.SSLContext | None = None
        self._certificate: ClientCertificate | None = None

    def get(self, path: str, query: Mapping[str, Any] | None = None) -> Object:
        return self._json("GET", path, query)

    def list(self, path: str, query: Mapping[str, Any] | None = None) -> ObjectList:
        """All pages. A page that has expired meanwhile (410) is the caller's to begin anew."""
        items: list[Object] = []
        asked = {"limit": PAGE, **(query or {})}
        while True:
            page = self._json("GET", path, asked)
            if not isinstance(page.get("items"), (list, type(None))) or "metadata" not in page:
                raise OSError("the answer is no list of objects")
            items.extend(page["items"] or ())
            about = page["metadata"]
            if not about.get("continue"):
                return ObjectList(tuple(items), str(about.get("resourceVersion") or ""))
            asked = {"limit": PAGE, **(query or {}), "continue": about["continue"]}
            asked.pop("resourceVersion", None)

    def create(self, path: str, body: Mapping[str, Any], query: Mapping[str, Any] | None = None) -> Object:
        return self._json("POST", path, query, body)

    def replace(self, path: str, body: Mapping[str, Any]) -> Object:
        return self._json("PUT", path, None, body)

    def patch(self, path: str, body: Mapping[str, Any], *, kind: str = MERGE) -> Object:
        return self._json("PATCH", path, None, body, kind=kind)

    def delete(self, path: str, body: Mapping[str, Any] | None = None) -> Object:
        return self._json("DELETE", path, None, body or {})

    def stream(
        self, path: str, query: Mapping[str, Any], *, silence: float | None = None
    ) -> BaseHTTPResponse:
        """An answer that goes on; `silence`: seconds without a word after which it counts as broken. The
        caller closes it."""
        return self._send("GET", path, query, timeout=urllib3.Timeout(connect=10, read=silence))

    def _json(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None,
        body: Mapping[str, Any] | None = None,
        *,
        kind: str = "application/json",
    ) -> Object:
        response = self._send(method, path, query, body, kind=kind)
        try:
            data = response.read(LARGEST)
        except HTTPError as error:
            raise OSError(str(error)) from error
        finally:
            response.release_conn()
        try:
            found = json.loads(data) if data else {}
        except (ValueError, RecursionError):
            raise OSError(f"the answer is no JSON: {data[:80]!r}") from None
        if not isinstance(found, dict):
            raise OSError("the answer is no object")
        return found

    def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None,
        body: Mapping[str, Any] | None = None,
        *,
        kind: str = "application/json",
        timeout: urllib3.Timeout = TIMEOUT,
    ) -> BaseHTTPResponse:
        """A success, not yet read. Credentials that are not taken are renewed once."""
        response = self._send_once(method, path, query, body, kind, timeout)
        if response.status == UNAUTHORIZED:
            response.drain_conn()
            self.access.credentials.forget()
            response = self._send_once(method, path, query, body, kind, timeout)
        if 200 <= response.status < 300:
            return response
        try:
            said = response.read(2**20)
        except HTTPError as error:
            raise OSError(str(error)) from error
        finally:
            response.release_conn()
        raise refusal_of(response.status, said)

    def _send_once(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None,
        body: Mapping[str, Any] | None,
        kind: str,
        timeout: urllib3.Timeout,
    ) -> BaseHTTPResponse:
        url = self.access.server + path + (f"?{urlencode(query, doseq=True)}" if query else "")
        headers = {"Accept": "application/json", **self.authorization()}
        content = None
        if body is not None:
            content = json.dumps(body, separators=(",", ":")).encode()
            headers["Content-Type"] = kind
        try:
            return self._connections(stream=timeout is not TIMEOUT).request(
                method, url, body=content, headers=headers, timeout=timeout, preload_content=False,
                retries=False, redirect=False,
            )  # fmt: skip
        except HTTPError as error:
            raise OSError(str(error)) from error

    def authorization(self) -> dict[str, str]:
        token = self.access.credentials.token()
        return {"Authorization": f"Bearer {token}"} if token else {}

    def tls(self) -> ssl.SSLContext:
        """With our certificate, as it is now."""
        certificate = self.access.credentials.certificate()
        with self._lock:
            if self._tls is None or certificate != self._certificate:
                self._tls = _tls_context(self.access, certificate)
                self._certificate = certificate
                self._pool = None
            return self._tls

    def _connections(self, *, stream: bool) -> urllib3.PoolManager:
        """Streams have as many as they need: others would wait for their ends."""
        context = self.tls()
        with self._lock:
            if self._pool is None or self._streams is None:
                name = self.access.server_name or None
                self._pool, self._streams = (
                    urllib3.PoolManager(
                        num_pools=2,
                        maxsize=CONNECTIONS,
                        block=block,
                        ssl_context=context,
                        server_hostname=name,
                        assert_hostname=False if self.access.insecure else name,
                    )
                    for block in (True, False)
                )
            return self._streams if stream else self._pool

    @property
    def host(self) -> tuple[str, int]:
        parts = urlsplit(self.access.server)
        return parts.hostname or "", parts.port or 443

    def close(self) -> None:
        with self._lock:
            for pool in (self._pool, self._streams):
                if pool is not None:
                    pool.clear()
            self._pool = self._streams = None


def _tls_context(access: ClusterAccess, certificate: ClientCertificate | None) -> ssl.SSLContext:
    """Raises OSError (ssl.SSLError) for a certificate that is none."""
    try:
        context = ssl.create_default_context(cadata=access.ca.decode("ascii") if access.ca else None)
    except ValueError:
        raise ssl.SSLError("the certificate authority is no PEM") from None
    if access.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate is not None:
        # The library reads files only: this one is ours alone, and gone at once.
        with tempfile.NamedTemporaryFile() as file:
            file.write(certificate.certificate + b"\n" + certificate.key)
            file.flush()
            context.load_cert_chain(file.name)
    return context
