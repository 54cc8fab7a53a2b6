"""`bai serve` and `bai token` as people type them."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys

import httpx
import pytest
import yaml

from bai.web import server as serving
from tests.bai.conftest import PATIENCE, Repo
from tests.waiting import until


def test_a_token_and_its_line(repo: Repo) -> None:
    said = repo.ok("token", "ci", "--role", "operator", "--project", "demo", "--format", "json").json
    assert said["line"]["name"] == "ci" and said["line"]["projects"] == ["demo"]
    text = repo.ok("token", "grafana", "--project", "a", "--project", "b").out
    line = yaml.safe_load(text[text.index("  - {") :])[0]
    assert (line["name"], line["role"], line["projects"]) == ("grafana", "viewer", ["a", "b"])
    for words in (("ci", "--role", "root"), (" ",)):
        wrong = repo("token", *words)
        assert wrong.code == 1 and words[-1] in wrong.err and "Usage:" in wrong.err and not wrong.out


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--listen", "nowhere"), "is no address"),
        (("--listen", "127.0.0.1:99999"), "is no address"),
        (("--listen", "203.0.113.7:0"), "--listen 203.0.113.7:0"),
        (("--access", "/nowhere/access.yaml"), "/nowhere/access.yaml"),
        (("--stuck-after", "0s"), "--stuck-after"),
        (("--prometheus", "prometheus:9090"), "--prometheus: 'prometheus:9090'"),
        (("--mode", "approve"), "--remote"),
        (("--cookie-key", "env:BAI_NO_SUCH_KEY"), "env:BAI_NO_SUCH_KEY"),
        (("--cookie-key", "env:HOME"), "fewer than 32 characters"),
        (("--public-url", "http://panel.example"), "without TLS"),
        (("--public-url", "panel.example"), "write https://panel.example"),
        (("--trusted-proxy", "10.1"), "--trusted-proxy: '10.1'"),
        (("--header-timeout", "0s"), "--header-timeout: at least 1s"),
        (("--max-connections", "0"), "--max-connections"),
        (("--max-connections", "1000000000"), "open files"),
    ],
)
def test_options_that_say_nothing_sensible(repo: Repo, words: tuple[str, ...], why: str) -> None:
    listen = () if "--listen" in words else ("--listen", "127.0.0.1:0")
    said = repo("serve", *listen, *words)
    assert said.code == 1 and why in said.err, said.err


def test_an_access_file_is_checked_without_a_server(repo: Repo) -> None:
    file = repo.root / "access.yml"
    file.write_text("anonymous: viewer\n")
    assert "says who may do what" in repo.ok("serve", "--check", "--access", str(file)).out
    file.write_text("anonymous: emperor\n")
    said = repo("serve", "--check", "--access", str(file))
    assert said.code == 1 and "access.yml:1:12" in said.err and "emperor" in said.err
    said = repo("serve", "--check")
    assert said.code == 1 and "--access FILE" in said.err


@pytest.mark.parametrize("address", ["127.0.0.1:0", "localhost:0"])
def test_answers_are_not_held_back(address: str) -> None:
    """Two writes of one answer, of which the second would wait for an acknowledgement."""
    with (
        serving.open_socket(address) as listening,
        socket.create_connection(listening.getsockname()[:2]),
        listening.accept()[0] as taken,
    ):
        assert taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.slow
def test_a_server_from_beginning_to_end(repo: Repo) -> None:
    """On real processes: a token made, asked with, a session seen to run, an end without a trace."""
    made = repo.ok("token", "ada", "--role", "operator", "--format", "json").json
    access = repo.write(".access.yaml", yaml.safe_dump({"tokens": [made["line"]]}))
    repo.session("a", "sleep", "1000")
    server = repo.start(
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--access",
        str(access),
        "--interval",
        "1s",
        stderr=subprocess.STDOUT,
    )
    try:
        assert server.stdout is not None
        first = server.stdout.readline()
        found = re.search(r"http://\S+", first)
        assert found, first + server.stdout.read()
        client = httpx.Client(
            base_url=found[0], headers={"Authorization": f"Bearer {made['token']}"}, timeout=60
        )

        def phases() -> list[str]:
            try:
                answer = client.get("/api/v1/clusters/here/resources?kind=Session")
            except httpx.TransportError:
                return []
            return [each["phase"] for each in answer.json()] if answer.status_code == 200 else []

        until(lambda: phases() == ["RUNNING"], "the session runs")
        assert client.get("/readyz").json() == {"status": "ok"}
        browser = httpx.Client(base_url=found[0], follow_redirects=True, timeout=60)
        login = {"credential": made["token"], "next": "/clusters/here/sessions"}
        page = browser.post("/login", data=login, headers={"Origin": found[0]})
        assert page.url.path == "/clusters/here/sessions" and "RUNNING" in page.text
        assert httpx.get(f"{found[0]}/api/v1/clusters", timeout=60).status_code == 401
        assert client.post("/api/v1/clusters/here/suspend", json={"why": "lunch"}).status_code == 200
        access.write_text("anonymous: viewer\n")
        until(
            lambda: httpx.get(f"{found[0]}/api/v1/clusters", timeout=60).status_code == 200,
            "it is read again",
        )
        assert browser.get("/").url.path == "/login", "the token is nobody's any more"
        assert browser.get("/").url.path == "/clusters/here"
        server.send_signal(signal.SIGTERM)
        assert server.wait(PATIENCE) == 0
    finally:
        server.kill()
        server.communicate()
        access.unlink()
    assert "suspend" in repo.ok("audit").out
    repo.ok("resume")


@pytest.mark.slow
def test_a_signal_before_the_server_listens_ends_it(repo: Repo) -> None:
    code = (
        "import os, signal, uvicorn\n"
        "run = uvicorn.Server.run\n"
        "def signalled(*given):\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    run(*given)\n"
        "uvicorn.Server.run = signalled\n"
        "from bai.cli.main import main\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "-C", str(repo.root), "serve", "--listen", "127.0.0.1:0"],
        env={**os.environ, **repo.env},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("stopped\n")
