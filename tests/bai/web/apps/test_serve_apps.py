"""`bai serve --apps-listen` as people type it: an app of a real session, from the document that names it to
the end of the server."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml

from tests.bai.conftest import PATIENCE, Repo
from tests.harness.ports import free_port
from tests.harness.processes import child_called
from tests.waiting import until


def gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """Its name leaves room for those of sockets."""
    with tempfile.TemporaryDirectory(prefix="bai-t-") as name:
        yield Path(name)


@pytest.mark.slow
def test_an_app_from_beginning_to_end(repo: Repo) -> None:
    made = repo.ok("token", "ada", "--role", "operator", "--format", "json").json
    access = repo.write(".access.yaml", yaml.safe_dump({"tokens": [made["line"]]}))
    listen, inside = free_port(), free_port()
    url = f"http://*.apps.example:{listen}"
    repo.write(
        "apps.yaml", f'apiVersion: bai/v1\nkind: AppProxy\nmetadata: {{name: apps}}\nspec: {{url: "{url}"}}\n'
    )
    (repo.root / "hello.txt").write_text("hello\n")
    repo.session(
        "lab", "python3", "-m", "http.server", str(inside), "--bind", "127.0.0.1",
        extra=f"  ports: [{{name: web, port: {inside}, protocol: http}}]\n",
    )  # fmt: skip
    words = ["--listen", "127.0.0.1:0", "--apps-listen", f"127.0.0.1:{listen}", "--apps-tls", "off"]
    server = repo.start(
        "serve", *words, "--access", str(access), "--interval", "1s", stderr=subprocess.STDOUT
    )
    try:
        assert server.stdout is not None
        lines = [server.stdout.readline() for _ in range(2)]
        assert re.search(r"answers at http://\S+", lines[0]) and f"apps are at 127.0.0.1:{listen}" in lines[1]
        host = f"web--lab--demo.apps.example:{listen}"
        client = httpx.Client(base_url=f"http://127.0.0.1:{listen}", headers={"Host": host}, timeout=60)
        allowed = {"Authorization": f"Bearer {made['token']}"}

        def status() -> int:
            try:
                return client.get("/", headers=allowed).status_code
            except httpx.TransportError:
                return 0

        until(lambda: status() == 200, "the app answers")
        assert "Directory listing" in client.get("/", headers=allowed).text
        assert client.get("/").status_code == 401
        assert client.get("/", headers={**allowed, "Host": f"other.apps.example:{listen}"}).status_code == 404
        caddy = child_called(server.pid, "caddy")
        assert caddy is not None
        os.kill(caddy, signal.SIGKILL)
        until(lambda: status() == 200, "it is back")
        (repo.root / "lab.yaml").unlink()
        until(lambda: status() == 404, "the app is none any more")
        last = child_called(server.pid, "caddy")
        assert last not in (None, caddy)
        server.send_signal(signal.SIGTERM)
        assert server.wait(PATIENCE) == 0
        assert last is not None and gone(last)
    finally:
        server.kill()
        server.communicate()
        access.unlink()


@pytest.mark.slow
def test_a_server_that_is_killed_leaves_no_caddy(repo: Repo, tmp_path: Path) -> None:
    server = repo.start(
        "serve", "--listen", "127.0.0.1:0", "--apps-listen", "127.0.0.1:0", "--apps-tls", "off"
    )
    try:
        until(lambda: child_called(server.pid, "caddy") is not None, "Caddy runs")
        caddy = child_called(server.pid, "caddy")
        assert caddy is not None
        server.kill()
        until(lambda: gone(caddy), "it is gone")
    finally:
        server.kill()
        server.communicate()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--apps-listen", "nowhere"), "--apps-listen: 'nowhere' is no address"),
        (("--apps-listen", "203.0.113.7:0"), "--apps-listen 203.0.113.7:0"),
        (("--apps-listen", "127.0.0.1:0", "--apps-tls", "self"), "'self' is no way to have certificates"),
        (("--apps-listen", "127.0.0.1:0", "--apps-tls", "/no.crt,/no.key"), "there is no file /no.crt"),
        (("--apps-listen", "127.0.0.1:0", "--apps-tls", "/etc/hosts,/etc/hosts"), "Caddy does not start: "),
        (("--apps-listen", "127.0.0.1:0", "--caddy", "/no/caddy"), "/no/caddy cannot be run: no such file"),
        (("--apps-listen", "node", "--apps-tls", "off"), "--apps-tls is for an address"),
        (("--caddy", "/usr/bin/caddy"), "--caddy goes with --apps-listen"),
        (("--demo", "--apps-listen", "127.0.0.1:0"), "--demo has a cluster of its own"),
    ],
)
def test_options_that_say_nothing_sensible(repo: Repo, words: tuple[str, ...], why: str) -> None:
    said = repo("serve", "--listen", "127.0.0.1:0", *words)
    assert said.code == 1 and why in said.err, said.err


@pytest.mark.parametrize("name", ["access.yaml", "sessions/../access.yml", "more/access.yaml"])
def test_an_access_file_among_the_documents_is_refused(repo: Repo, name: str) -> None:
    (repo.root / "more").mkdir()
    (repo.root / "sessions").mkdir(exist_ok=True)
    access = repo.root / name
    access.write_text("tokens: []\n")
    said = repo("serve", "--listen", "127.0.0.1:0", "--access", str(access))
    assert said.code == 1 and "is read as a document" in said.err and "~/" in said.err, said.err
