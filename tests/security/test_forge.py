"""Whoever a forge, or a proxy on the way to it, leads to wants the password that is for the forge alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from reconciler.gitops.remote import Remote
from reconciler.sources.git_command import GitLogin
from schemas.problems.errors.git_remote import RemoteUnreachable

PASSWORD = "for-the-forge-alone"


class Listener(ThreadingHTTPServer):
    """Answers everything in one way, and remembers who said what of himself."""

    daemon_threads = True

    def __init__(self, status: int, header: tuple[str, str]) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.status, self.header = status, header
        self.asked = 0
        self.told: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Answer(BaseHTTPRequestHandler):
    server: Listener

    def do_GET(self) -> None:
        self.server.asked += 1
        names = ("Authorization", "Proxy-Authorization")
        self.server.told += [self.headers[name] for name in names if name in self.headers]
        name, value = self.server.header
        self.send_response(self.server.status)
        self.send_header(name, value.replace("{path}", self.path))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def listening(status: int, name: str, value: str) -> Iterator[Listener]:
    server = Listener(status, (name, value))
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def fetched(url: str, folder: Path) -> None:
    with pytest.raises(RemoteUnreachable):
        Remote(url, folder / "copy", GitLogin("ada", PASSWORD)).fetch("main", timeout=60)


def test_the_forge_itself_is_told(tmp_path: Path) -> None:
    """What the tests below would be worth nothing without."""
    with listening(401, "WWW-Authenticate", 'Basic realm="x"') as forge:
        fetched(f"{forge.url}/x.git", tmp_path)
    assert forge.told


def test_where_the_forge_leads_is_not_told(tmp_path: Path) -> None:
    with (
        listening(401, "WWW-Authenticate", 'Basic realm="x"') as other,
        listening(302, "Location", f"{other.url}{{path}}") as forge,
    ):
        fetched(f"{forge.url}/x.git", tmp_path)
    assert other.asked
    assert not other.told


def test_a_proxy_is_not_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with listening(407, "Proxy-Authenticate", 'Basic realm="x"') as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.delenv("no_proxy", raising=False)
        fetched("http://forge.invalid/x.git", tmp_path)
    assert proxy.asked
    assert not proxy.told
