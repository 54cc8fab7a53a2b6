"""bai open and bai share, where a repository is and where only a server is."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.bai.apps import PORTS, PROXY
from tests.bai.conftest import Repo
from tests.bai.remote.conftest import Laptop
from tests.bai.web.lab import Lab, serving
from tests.reconciler.lab import session

JUPYTER = "https://jupyter--lab--p.apps.example:8443"
ONE_PORT = "ports: [{name: jupyter, port: 8888}]"
GRPC_PORT = "ports: [{name: rpc, port: 50051, protocol: grpc}]"


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a browser was given; there is a display."""
    found: list[str] = []

    def take(url: str) -> bool:
        found.append(url)
        return True

    monkeypatch.setattr("webbrowser.open", take)
    monkeypatch.setenv("DISPLAY", ":9")
    return found


@pytest.fixture
def server(lab: Lab) -> Iterator[str]:
    lab.write("proxy", PROXY)
    lab.write("lab", session("lab", PORTS))
    lab.write("one", session("one", ONE_PORT))
    lab.write("waits", session("waits", f"{ONE_PORT}, resources: {{cuda.device: 99}}"))
    lab.write("calls", session("calls", f"{GRPC_PORT}, resources: {{cuda.device: 99}}"))
    lab.write("plain", session("plain", "ports: [{name: db, port: 1, protocol: tcp}]"))
    for _ in range(2):
        lab.once()
    with serving(lab.app) as address:
        yield address


def test_a_browser_opens_what_the_server_names(server: str, laptop: Laptop, opened: list[str]) -> None:
    laptop.log_in(server, "ours")
    said = laptop.ok("open", "lab", "jupyter")
    assert (said.out, said.err, opened) == (f"{JUPYTER}\n", "", [JUPYTER])
    assert laptop.ok("open", "one").out == "https://jupyter--one--p.apps.example:8443\n"
    said = laptop.ok("open", "--print", "p/waits")
    assert said.out == "https://jupyter--waits--p.apps.example:8443\n"
    assert said.err == "Session/p/waits is PENDING: the page waits until it runs\n"
    assert len(opened) == 2


def test_what_has_no_page_is_printed_alone(server: str, laptop: Laptop, opened: list[str]) -> None:
    laptop.log_in(server, "ours")
    said = laptop.ok("open", "calls")
    assert said.out == "https://rpc--calls--p.apps.example:8443\n"
    assert (said.err, opened) == ("Session/p/calls is PENDING: it answers when it runs\n", [])


def test_without_a_display_nothing_is_drawn_into_the_terminal(
    server: str, laptop: Laptop, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    laptop.log_in(server, "ours")
    assert laptop.ok("open", "one").out == "https://jupyter--one--p.apps.example:8443\n" and opened == []


@pytest.mark.parametrize(
    ("words", "why", "hint"),
    [
        (("lab",), "Session/p/lab has several apps", "name one: jupyter, board"),
        (("lab", "jupiter"), "no app of Session/p/lab named jupiter", "did you mean jupyter?"),
        (("lab", "db"), "no app of Session/p/lab named db", "jupyter"),
        (("plain",), "names no port with protocol http, https or grpc", "bai port-forward"),
        (("lap",), "no session named lap", "did you mean"),
    ],
)
def test_what_cannot_be_opened_is_said_with_what_to_do(
    words: tuple[str, ...], why: str, hint: str, server: str, laptop: Laptop, opened: list[str]
) -> None:
    laptop.log_in(server, "ours")
    said = laptop("open", *words)
    assert said.code == 1 and why in said.err and hint in said.err and opened == [], said.err
    assert "Traceback" not in said.err


def test_in_a_repository_documents_say_where_apps_are(repo: Repo, opened: list[str]) -> None:
    repo.session("lab", "sleep", "1000", extra="  ports: [{name: jupyter, port: 8888}]\n")
    said = repo("open", "lab")
    assert said.code == 1 and opened == []
    assert "cluster here has no AppProxy" in said.err
    assert "bai port-forward demo/lab jupyter" in said.err and "kind: AppProxy" in said.err
    repo.write("proxy.yaml", PROXY)
    said = repo.ok("open", "lab")
    assert opened == ["https://jupyter--lab--demo.apps.example:8443"]
    assert said.err == "Session/demo/lab is not applied: the page waits until it runs\n"
    said = repo("share", "lab")
    assert said.code == 1 and "links are made by a server" in said.err and "bai login" in said.err


class Forger(BaseHTTPRequestHandler):
    """A server whose answers about apps are `answer`, and about a link `link`."""

    url = JUPYTER
    link: Any = None
    asked: list[tuple[str, Any]]

    def _say(self, value: object, status: int = 200) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        if self.path.startswith("/api/v1/whoami"):
            self._say({"name": "ada", "role": "viewer", "bindings": [{"role": "viewer", "projects": None}]})
        elif self.path.endswith("/clusters"):
            self._say([{"name": "here"}])
        elif "/commands/apps" in self.path:
            apps = [{"name": "jupyter", "url": self.url, "protocol": "http", "access": "owner"}]
            facts = {"session": "Session/p/lab", "cluster": "here", "phase": "RUNNING", "hasProxy": True}
            document = {**facts, "ports": ["jupyter"], "apps": apps}
            self._say({"version": "bai.apps/v1", "document": document})
        else:
            self._say({}, 404)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        type(self).asked.append((self.path, body))
        self._say(*self.link)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@pytest.fixture
def forger() -> Iterator[tuple[str, type[Forger]]]:
    kind = type("Forged", (Forger,), {"asked": []})
    made = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{made.server_address[1]}", kind
    made.shutdown()
    thread.join()
    made.server_close()


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "javascript:alert(1)",
        "--remote-debugging-port=1",
        "https://apps.example/\x1b]0;x\x07",
        "https://ada@apps.example/",
        "https://a b.example",
        "",
    ],
)
def test_a_server_gives_a_browser_nothing_but_a_page(
    url: str, forger: tuple[str, type[Forger]], laptop: Laptop, opened: list[str]
) -> None:
    address, kind = forger
    kind.url = url
    laptop.log_in(address, "t")
    said = laptop("open", "lab")
    assert said.code != 0 and "has no URL of an app" in said.err and opened == [], said
    assert "\x1b" not in said.err + said.out


def test_a_link_is_asked_for_once_and_said_with_its_end(
    forger: tuple[str, type[Forger]], laptop: Laptop
) -> None:
    address, kind = forger
    link = f"{JUPYTER}/.bai/link?token=abc"
    kind.link = ({"url": link, "until": "2027-01-15T09:00:00Z"}, 200)
    laptop.log_in(address, "t")
    said = laptop.ok("share", "lab", "--for", "30m")
    assert said.out == f"{link}\n"
    assert said.err == "opens jupyter of Session/p/lab until 2027-01-15T09:00:00Z\n"
    assert kind.asked == [("/api/v1/clusters/here/apps/p/lab/jupyter/links", {"for": 1800})]
    found = laptop.ok("share", "lab", "jupyter", "--format", "json").json
    assert found == {"version": "bai.link/v1", "url": link, "until": "2027-01-15T09:00:00Z"}


@pytest.mark.parametrize(
    ("link", "words"),
    [
        (({"detail": "links may open an app for a day at most"}, 422), "for a day at most"),
        (({"url": "javascript:alert(1)", "until": ""}, 200), "has no URL of an app"),
        (([1], 200), "has no URL of an app"),
    ],
)
def test_what_is_refused_or_makes_no_sense_is_said(
    link: Any, words: str, forger: tuple[str, type[Forger]], laptop: Laptop
) -> None:
    address, kind = forger
    kind.link = link
    laptop.log_in(address, "t")
    said = laptop("share", "lab", "--for", "7d")
    assert said.code != 0 and words in said.err and "Traceback" not in said.err, said
    assert len(kind.asked) == 1


def test_how_long_is_checked_before_anybody_is_asked(laptop: Laptop) -> None:
    said = laptop("share", "lab", "--for", "soon")
    assert said.code != 0 and "--for" in said.err
