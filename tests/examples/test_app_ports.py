"""Apps at ports of one host, as the example has them: `bai serve`, the real Caddy, native processes."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
import pytest
import yaml

from tests.bai.conftest import PATIENCE
from tests.examples.user import User
from tests.harness.bai_process import Command, start_bai
from tests.harness.ports import free_port, free_span
from tests.waiting import until

PAGE = {
    "Accept": "text/html",
    "Sec-Fetch-Site": "none",
    "Sec-Fetch-Mode": "navigate",
    "Sec-Fetch-Dest": "document",
}
"""What a browser says when somebody opens an address."""


@contextlib.contextmanager
def served(user: User, *words: str) -> Iterator[None]:
    with (user.folder.parent / "serve.log").open("ab") as log:
        command = Command(("serve", *words), user.environment, user.folder, stdout=log, stderr=log)
        server = start_bai(command)
        try:
            yield
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(PATIENCE)


def pinged(number: int) -> str:
    """Who answers; empty where nobody does."""
    with contextlib.suppress(OSError), socket.create_connection(("localhost", number), timeout=30) as stream:
        stream.sendall(b"PING\r\n")
        return stream.recv(200).decode().removeprefix("+PONG ").strip()
    return ""


def page_of(url: str, client: httpx.Client, **options: str) -> httpx.Response | None:
    with contextlib.suppress(httpx.TransportError):
        return client.get(url, headers=options)
    return None


def logged_in(app: str, panel: str, token: str) -> httpx.Client:
    """As a browser goes: to the app, to the panel, and back."""
    client = httpx.Client(timeout=60, trust_env=False)
    led = client.get(app, headers=PAGE)
    assert led.status_code == 302 and led.headers["location"].startswith(f"{panel}/apps/open?"), led.text
    client.post(f"{panel}/login", data={"credential": token}, headers={"Sec-Fetch-Site": "same-origin"})
    page = client.get(led.headers["location"], headers=PAGE)
    onward = page.headers["refresh"].partition("url=")[2]
    assert urlsplit(onward).netloc == urlsplit(app).netloc
    assert client.get(onward, headers=PAGE).status_code == 302
    return client


@pytest.mark.slow
@pytest.mark.xdist_group("machine")
@pytest.mark.parametrize("user", ["sessions/apps/ports"], indirect=True)
def test_apps_are_reached_by_their_ports(user: User) -> None:
    first = free_span(4)
    listen, panel = free_port(), free_port()
    numbers = {
        "30000-30009": f"{first}-{first + 1}", "31000-31009": f"{first + 2}-{first + 3}",
        "31000": str(first + 2), "8000": str(free_port()), "6379": str(free_port()),
    }  # fmt: skip
    for path in user.folder.glob("*.yaml"):
        text = path.read_text()
        for old, new in numbers.items():
            text = text.replace(old, new)
        path.write_text(text)
    copy = (user.folder / "files.yaml").read_text().replace("name: files", "name: other")
    (user.folder / "other.yaml").write_text(copy.replace(numbers["8000"], str(free_port())))
    made = json.loads(user.bai("token", "ada", "--role", "operator", "--format", "json"))
    access = user.folder.parent / "access.yaml"
    access.write_text(yaml.safe_dump({"tokens": [made["line"]]}))
    url = f"http://127.0.0.1:{panel}"
    words = (
        "--access", str(access), "--listen", f"127.0.0.1:{panel}", "--public-url", url, "--interval", "1s",
        "--apps-listen", f"127.0.0.1:{listen}", "--apps-tls", "off",
    )  # fmt: skip
    files, other, cache = (f"http://localhost:{first}", f"http://localhost:{first + 1}", first + 2)
    token = {"Authorization": f"Bearer {made['token']}"}
    with served(user, *words), httpx.Client(timeout=60, trust_env=False) as client:
        found: set[str] = set()
        until(lambda: found.add(pinged(cache)) or len(found - {""}) == 2, "both replicas answer", pause=0.1)
        for each in (files, other):
            until(lambda each=each: _is_open(page_of(each, client, **token)), "it is open", pause=0.2)
        assert client.get(files).status_code == 401
        assert client.get(files, headers={**token, "Host": f"localhost:{first + 1}"}).status_code == 421
        _browse(logged_in(files, url, made["token"]), files, other)
        _shown(user, files, cache)
    assert pinged(cache) == ""
    with served(user, *words):
        until(lambda: pinged(cache) != "", "the same port leads there again", pause=0.2)
        (user.folder / "cache.yaml").unlink()
        until(lambda: _is_refused(cache), "the port is nobody's any more", pause=0.2)


def _is_open(answer: httpx.Response | None) -> bool:
    return answer is not None and answer.status_code == 200 and "Directory listing" in answer.text


def _is_refused(number: int) -> bool:
    try:
        socket.create_connection(("localhost", number), timeout=30).close()
    except ConnectionRefusedError:
        return True
    return False


def _browse(browser: httpx.Client, files: str, other: str) -> None:
    """Its cookies go to all ports of the host, and count at one."""
    assert _is_open(browser.get(files, headers=PAGE))
    assert browser.get(other, headers=PAGE).status_code == 302, "it has to log in there as well"
    page = {
        "Origin": other,
        "Sec-Fetch-Site": "same-site",
        "Sec-Fetch-Mode": "cors",
        "Sec-Fetch-Dest": "empty",
    }
    assert browser.get(files, headers=page).status_code == 403
    assert browser.post(files, headers={"Origin": other}).status_code == 403


def _shown(user: User, files: str, cache: int) -> None:
    assert user.bai("open", "--print", "files").strip() == files
    assert user.bai("open", "--print", "service/cache").strip() == f"tcp://localhost:{cache}"
    assert files in user.bai("get", "sessions", "-o", "wide")
    assert f"tcp://localhost:{cache}" in user.bai("describe", "service/cache")
    assert f"{cache} ping of Service/examples/cache" in user.bai("describe", "AppProxy/apps")
