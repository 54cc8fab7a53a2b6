"""Debian's packages for nodes that reach nothing outside: a web server on the lab's network that fetches what
it is asked for from where this machine's own apt gets it, and keeps the packages in the lab's cache. For
tests, its index names those alone that tests install (`apt_subset`).

Folders of this machine are served as well (`routes`), such as a repository that a test built.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar, Protocol

from tests.lab.apt_subset import subset
from tests.lab.cache import LabUnavailable, command, folder, tool
from tests.lab.spaces import PATIENCE, listening

SUITE = "bookworm"
PORT = 3142
_PASSED_ON = ("If-Modified-Since", "Range", "If-Range")
_PASSED_BACK = ("Last-Modified", "Content-Type", "Content-Length", "Content-Range", "Accept-Ranges")


@dataclass(frozen=True)
class Archive:
    """A package source of Debian's. `uri` is where it really is."""

    name: str
    """Its first path part here: `debian`, `debian-security`, or `debian-1` and so on."""
    uri: str
    suites: tuple[str, ...]


def archives() -> list[Archive]:
    """Where this machine's apt gets Debian's packages from; on other systems, where mmdebstrap does.

    The one with the suite itself comes first. Raises LabUnavailable.
    """
    found = _targets()
    if SUITE not in {suite for suites in found.values() for suite in suites}:
        with contextlib.suppress(LabUnavailable):
            command([tool("apt-get"), "update", "-qq"])
        found = _targets()
    if SUITE not in {suite for suites in found.values() for suite in suites}:
        default = re.search(r"my \$mirror\s*=\s*'([^']+)'", Path(tool("mmdebstrap")).read_text())
        if default is None:
            raise LabUnavailable(f"no source of Debian's {SUITE} is known here")
        found = {default[1]: {SUITE}}
    ordered = sorted(found.items(), key=lambda each: (SUITE not in each[1], each[0]))
    return [
        Archive(_name(number, suites), uri.rstrip("/"), tuple(sorted(suites)))
        for number, (uri, suites) in enumerate(ordered)
    ]


def _name(number: int, suites: set[str]) -> str:
    if number == 0:
        return "debian"
    return "debian-security" if f"{SUITE}-security" in suites else f"debian-{number}"


def _targets() -> dict[str, set[str]]:
    form = "$(ORIGIN)|$(REPO_URI)|$(RELEASE)|$(COMPONENT)"
    try:
        lines = command([tool("apt-get"), "indextargets", "--format", form, "Created-By: Packages"])
    except LabUnavailable:
        return {}
    found: dict[str, set[str]] = {}
    for line in lines.splitlines():
        origin, uri, suite, component = line.split("|")
        if origin == "Debian" and component == "main" and suite.startswith(SUITE):
            found.setdefault(uri, set()).add(suite)
    return found


def apt_proxy() -> dict[str, str]:
    """The proxies that this machine's apt uses, for `urllib`; the environment's when it names none."""
    if not shutil.which("apt-config"):
        return urllib.request.getproxies()
    words = ("shell", "http", "Acquire::http::Proxy", "https", "Acquire::https::Proxy")
    lines = subprocess.run(["apt-config", *words], check=False, capture_output=True, text=True).stdout
    named = dict(re.findall(r"^(https?)='([^']*)'", lines, re.M))
    return {k: v for k, v in {**urllib.request.getproxies(), **named}.items() if v and v != "DIRECT"}


class AptMirror:
    """Serves at `url` until closed: `url`/<archive's name>/..., and `url`/<name>/... for each folder that
    `routes` names (more may be put there at any time).

    It listens in `namespace` at `address`, and reaches out from where it was made. `whole`: with all of
    Debian's index. Raises LabUnavailable.
    """

    def __init__(
        self, namespace: str, address: str, found: Iterable[Archive] = (), *, whole: bool = False
    ) -> None:
        self.archives = list(found) or archives()
        self.address = address
        self.url = f"http://{address}:{PORT}"
        self.routes: dict[str, Path] = {}
        self.asked: list[str] = []
        """Paths that were asked for, in order."""
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler(apt_proxy()))
        self._locks: dict[str, threading.Lock] = {}
        self._kept = folder() / "apt"
        suites = [f"{each.name}/dists/{suite}" for each in self.archives for suite in each.suites]
        self._index = None if whole else subset(suites, self._fetched)
        mirror = self

        class Handler(_Handler):
            serve = mirror

        self._server = ThreadingHTTPServer((address, PORT), Handler, bind_and_activate=False)
        self._server.daemon_threads = True
        self._server.socket.close()
        self._server.socket = listening(namespace, address, PORT)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def sources(self) -> str:
        """The lines of a `sources.list`."""
        return "".join(
            f"deb {self.url}/{each.name} {suite} main\n" for each in self.archives for suite in each.suites
        )

    def find(self, path: str) -> Path | str | None:
        """The file, or the address, that a path stands for."""
        name, _, rest = path.lstrip("/").partition("/")
        if name in self.routes:
            return _below(self.routes[name], rest)
        for each in self.archives:
            if name == each.name and rest.startswith("dists/") and self._index is not None:
                return _below(self._index, f"{name}/{rest}")
            if name == each.name:
                return self._package(path, f"{each.uri}/{rest}")
        return None

    def _fetched(self, path: str) -> bytes:
        """What lies at a path of Debian's own archive. Raises LabUnavailable."""
        name, _, rest = path.partition("/")
        uri = next(each.uri for each in self.archives if each.name == name)
        try:
            with self.open(f"{uri}/{rest}", {}) as answer:
                return answer.read()
        except (urllib.error.URLError, TimeoutError) as error:
            raise LabUnavailable(f"Debian's index cannot be had: {error}") from None

    def _package(self, path: str, uri: str) -> Path | str:
        """A package is fetched whole, once; what else there is goes through."""
        if not path.endswith(".deb") or ".." in path:
            return uri
        file = self._kept / path.lstrip("/")
        with self._locks.setdefault(path, threading.Lock()):
            if not file.exists():
                file.parent.mkdir(parents=True, exist_ok=True)
                draft = file.with_name(f".{file.name}.{threading.get_native_id()}")
                try:
                    with self.open(uri, {}) as answer, draft.open("wb") as out:
                        shutil.copyfileobj(answer, out)
                    draft.rename(file)
                finally:
                    draft.unlink(missing_ok=True)
        return file

    def open(self, uri: str, headers: Mapping[str, str]) -> Answer:
        """Raises urllib.error.URLError."""
        request = urllib.request.Request(uri, headers=dict(headers))
        answer: Answer = self._opener.open(request, timeout=2 * PATIENCE)
        return answer

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _below(folder: Path, path: str) -> Path | None:
    root = folder.resolve()
    file = (root / path).resolve()
    return file if file.is_file() and file.is_relative_to(root) else None


class Answer(Protocol):
    """What urllib gives."""

    status: int
    headers: Mapping[str, str]

    def read(self, size: int = ..., /) -> bytes: ...

    def __enter__(self) -> Answer: ...

    def __exit__(self, *_: object) -> None: ...


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    serve: ClassVar[AptMirror]

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def _answer(self, *, body: bool) -> None:
        self.serve.asked.append(self.path)
        try:
            found = self.serve.find(urllib.request.unquote(self.path))
            if found is None:
                self._short(404)
            elif isinstance(found, Path):
                self._file(found, body)
            else:
                self._through(found, body)
        except urllib.error.HTTPError as error:
            self._short(error.code)
        except (urllib.error.URLError, TimeoutError) as error:
            self._short(504, str(error))

    def _file(self, path: Path, body: bool) -> None:
        content = path.read_bytes()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if body:
            self.wfile.write(content)

    def _through(self, uri: str, body: bool) -> None:
        headers = {name: value for name in _PASSED_ON if (value := self.headers.get(name))}
        with self.serve.open(uri, headers) as answer:
            self.send_response(answer.status)
            for name in _PASSED_BACK:
                if value := answer.headers.get(name):
                    self.send_header(name, value)
            self.close_connection = answer.headers.get("Content-Length") is None
            self.end_headers()
            if body:
                shutil.copyfileobj(answer, self.wfile)

    def _short(self, code: int, why: str = "") -> None:
        self.send_response(code, why.splitlines()[0] if why else None)
        if code == 304:
            self.end_headers()
            return
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass
